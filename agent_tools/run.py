"""The run of an agent. The host says once who calls and in which run, and every tool inside takes it from there."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

from agent_tools import arguments
from agent_tools.goal_tree import Goal, GoalTree
from agent_tools.trace_store import TraceStore

# The server answers a search within 3 s. The agent should not wait much longer for its memory.
RECALL_TIMEOUT_S: Final = 6.0


@dataclass(slots=True)
class AgentRun:
    """The state of a run. `caller` has the context ids, such as `user_id` and `project_id`; a model never chooses them.

    A `trace_id` of another type is converted to text; None means none. `message_id` is the message that the agent works
    on, for the host to set. `timeout_s` limits each call of the goal tools.
    """

    tree: GoalTree = field(default_factory=GoalTree)
    trace_id: str = ""
    trace_store: TraceStore | None = None
    caller: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = RECALL_TIMEOUT_S
    message_id: str = ""

    def __post_init__(self) -> None:
        given: object = self.trace_id
        self.trace_id = "" if given is None else str(given)

    def get_recorded_goal(self, goal_id: str | None) -> Goal | None:
        """Return the goal for which the server notes what it shows: this one, else the focused one.

        None without a trace: the server could not tell the run from others.
        """
        if not self.trace_id:
            return None
        return self.tree.find(goal_id) if goal_id else self.tree.focused


_current: ContextVar[AgentRun | None] = ContextVar("agent_run", default=None)


@contextmanager
def running(
    run: AgentRun | None = None, *, caller: Mapping[str, str] | None = None, trace_id: str = ""
) -> Iterator[AgentRun]:
    """Make this the run of all tools, in the block and in the tasks that it starts.

    Without `run` a new one is made for `caller` and `trace_id`.
    """
    run = run or AgentRun(caller=caller or {}, trace_id=trace_id)
    token = _current.set(run)
    try:
        yield run
    finally:
        _current.reset(token)


def current_run() -> AgentRun | None:
    """Return the run of the `running` block that we are in."""
    return _current.get()


def get_caller_ids() -> dict[str, str]:
    """Return the context ids of the run, none outside of a run. Raises ToolFailure for what is not a context id."""
    run = current_run()
    return arguments.check_caller(run.caller) if run else {}


def get_owner() -> str | None:
    """Return who owns what the run saves, such as `user:li`; None if it has no user, and the server decides."""
    user_id = get_caller_ids().get("user_id")
    return None if user_id is None else f"user:{user_id}"
