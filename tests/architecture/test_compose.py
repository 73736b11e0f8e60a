"""What `docker compose up` promises: loopback only, data that outlives the container, nobody's root."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
# One line an instruction: continued lines are joined.
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()


def test_there_is_one_service() -> None:
    assert list(COMPOSE["services"]) == ["knowhub"]


def test_only_this_machine_can_reach_it() -> None:
    assert COMPOSE["services"]["knowhub"]["ports"] == ["127.0.0.1:${KNOWHUB_PORT:-8000}:8000"]
    assert "network_mode" not in COMPOSE["services"]["knowhub"]


def test_an_open_bind_is_allowed_here_and_nowhere_else() -> None:
    environment = COMPOSE["services"]["knowhub"]["environment"]

    assert environment["KNOWHUB_HOST"] == "0.0.0.0"  # noqa: S104 - a published container listens on all interfaces
    assert environment["KNOWHUB_ALLOW_OPEN_BIND"] == "yes"
    assert not [line for line in DOCKERFILE if line.startswith("ENV") and "KNOWHUB_ALLOW_OPEN_BIND" in line]


def test_no_key_is_written_down() -> None:
    environment = COMPOSE["services"]["knowhub"]["environment"]

    assert {name: value for name, value in environment.items() if "KEY" in name and value is not None} == {}


def test_data_is_in_a_named_volume() -> None:
    service = COMPOSE["services"]["knowhub"]
    mounts = dict(reversed(mount.split(":")) for mount in service["volumes"])

    assert service["environment"]["KNOWHUB_DATA_DIR"] == "/data"
    assert mounts["/data"] in COMPOSE["volumes"]


def test_the_root_file_system_is_read_only() -> None:
    service = COMPOSE["services"]["knowhub"]

    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]


def test_it_is_restarted_and_stopped_gently() -> None:
    service = COMPOSE["services"]["knowhub"]

    assert service["restart"] == "unless-stopped"
    assert re.fullmatch(r"\d+s", service["stop_grace_period"])


def test_health_is_asked_of_the_server_in_the_same_words_by_both() -> None:
    in_compose = COMPOSE["services"]["knowhub"]["healthcheck"]["test"]
    [instruction] = [line for line in DOCKERFILE if line.startswith("HEALTHCHECK")]

    assert in_compose[0] == "CMD"
    assert "http://127.0.0.1:8000/health" in in_compose[-1]
    assert json.loads(instruction.partition(" CMD ")[2]) == in_compose[1:]


def test_the_last_stage_runs_as_a_user_other_than_root() -> None:
    last_stage = DOCKERFILE[max(n for n, line in enumerate(DOCKERFILE) if line.startswith("FROM ")) :]
    users = [line.split()[1] for line in last_stage if line.startswith("USER ")]

    assert users
    assert not {"root", "0"} & {user.partition(":")[0] for user in users}


def test_everything_in_the_image_was_checked_against_its_hash() -> None:
    steps = [step for line in DOCKERFILE if line.startswith("RUN ") for step in line[4:].split("&&")]
    installs = [shlex.split(step) for step in steps if "pip install" in step]

    assert installs
    for words in installs:
        # The project itself has no hash: it is the wheel made one stage before, and brings nothing with it.
        assert "--require-hashes" in words or {"--no-index", "--no-deps"} <= set(words)
