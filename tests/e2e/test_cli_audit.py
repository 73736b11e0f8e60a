"""`knowhub audit` as a person and an agent use it: a real process on a real directory."""

from tests.e2e.command_line import Cli

ADVICE = "Wait for the element to be clickable before you click it, and never sleep for a fixed time."


def test_the_report_is_a_table_for_a_person_and_json_for_a_program(cli: Cli) -> None:
    first = cli.json("save", "--content", ADVICE)["id"]
    copy = cli.json("save", "--content", ADVICE, "--agent-id", "crawler")["id"]
    cli.json("save", "--content", "登录密码是 Tr0ub4dor&3xyz")

    shown = cli("audit")
    result = cli.json("audit", "--kind", "duplicate", "--kind", "stale", "--limit", "5", "--stale-days", "7")

    assert shown.code == 0
    assert "junk rate: 33.3% (1 of 3 records and infos)" in shown.out
    assert "secret 1, duplicate 1" in shown.out
    assert "ub4dor" not in shown.out
    assert [(finding["id"], finding["related"]) for finding in result["findings"]] == [(first, [copy])]
    assert result["summary"] == {"duplicate": 1, "stale": 0}


def test_wrong_usage_ends_with_2_and_a_missing_directory_with_1(cli: Cli) -> None:
    missing = cli("audit")
    cli.json("save", "--content", ADVICE)

    wrong = cli("audit", "--limit", "0")

    assert (missing.code, missing.out) == (1, "")
    assert (wrong.code, wrong.out) == (2, "")
    assert "--limit" in wrong.err


def test_an_audit_without_findings_says_so(cli: Cli) -> None:
    cli.json("save", "--content", ADVICE)

    shown = cli("audit", "--account", "default")

    assert shown.out == "junk rate: 0.0% (0 of 1 records and infos)\nnothing was found\n"
