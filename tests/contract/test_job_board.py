"""What every board of jobs does; a board of replicas joins the list of fixtures."""

from dataclasses import replace

import pytest

from knowhub.core.job_board import MAX_JOBS, InMemoryJobBoard, Job, JobBoard, JobStatus

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[InMemoryJobBoard])
def board(request: pytest.FixtureRequest) -> JobBoard:
    made: JobBoard = request.param()
    return made


def job(job_id: str, kind: str = "compact", account: str = "default") -> Job:
    return Job(job_id, kind, account, started_at=1.0, stage=kind)


async def test_one_job_of_a_kind_runs_in_an_account(board: JobBoard) -> None:
    first = job("job-1")

    assert await board.begin(first) is None
    running = await board.begin(job("job-2"))
    assert running is not None
    assert running.job_id == "job-1"
    assert await board.begin(job("job-3", kind="restore")) is None
    assert await board.begin(job("job-4", account="other")) is None
    assert await board.find("default", "job-2") is None


async def test_an_ended_job_makes_room_and_shows_its_result(board: JobBoard) -> None:
    first = job("job-1")
    await board.begin(first)

    await board.save(replace(first, status=JobStatus.DONE, result={"rows": 3}))

    found = await board.find("default", "job-1")
    assert found is not None
    assert (found.status, found.result) == (JobStatus.DONE, {"rows": 3})
    assert await board.begin(job("job-2")) is None


async def test_a_job_is_found_in_its_account_only(board: JobBoard) -> None:
    await board.begin(job("job-1"))

    assert await board.find("other", "job-1") is None


async def test_the_oldest_ended_jobs_are_forgotten_and_running_ones_kept(board: JobBoard) -> None:
    await board.begin(job("job-running", kind="restore"))
    for number in range(MAX_JOBS + 1):
        done = job(f"job-{number}")
        await board.begin(done)
        await board.save(replace(done, status=JobStatus.DONE))

    assert await board.find("default", "job-0") is None
    assert await board.find("default", "job-running") is not None
    assert await board.find("default", f"job-{MAX_JOBS}") is not None
