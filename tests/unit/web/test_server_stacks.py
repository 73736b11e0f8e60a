"""The stacks that a server prints when it does not stop."""

import threading

from knowhub.web.server import list_stacks


def recurse(depth: int) -> None:
    if depth:
        recurse(depth - 1)


def test_stacks_of_running_threads_are_listed() -> None:
    ending = threading.Event()

    def keep_recursing() -> None:
        while not ending.is_set():
            recurse(50)

    threads = [threading.Thread(target=keep_recursing) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        listed = [list_stacks() for _ in range(200)]
    finally:
        ending.set()
        for thread in threads:
            thread.join()

    assert all(stacks.count("in keep_recursing\n") == 3 for stacks in listed)
    assert not any("test_stacks_of" in stacks for stacks in listed)
