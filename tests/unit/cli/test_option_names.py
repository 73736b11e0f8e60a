"""A refusal names the options of the command that was typed, not the fields of the HTTP API."""

import pytest

from knowhub.cli.commands import name_options

OPTIONS = {"on_conflict": "--on-conflict", "allow_duplicate": "--allow-duplicate", "cascade": "--cascade"}


@pytest.mark.parametrize(
    ("detail", "shown"),
    [
        ("taken; use it, or send allow_duplicate", "taken; use it, or add --allow-duplicate"),
        ("delete them too with cascade=true", "delete them too with --cascade"),
        ("Use on_conflict=skip or on_conflict=replace", "Use --on-conflict skip or --on-conflict replace"),
        ("'x cascades=true' is there already", "'x cascades=true' is there already"),
        ("send dry_run=true", "send dry_run=true"),
    ],
)
def test_a_field_that_the_command_has_as_an_option_is_named_as_that(detail: str, shown: str) -> None:
    assert name_options(detail, OPTIONS) == shown
