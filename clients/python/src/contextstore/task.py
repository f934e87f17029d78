"""A task, for threads: everything an agent does with its context."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Generator, Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from . import _chat, _compress, _cursors
from ._base import TaskBase
from ._hooks import Ending, HookFailure, Hooks, report
from ._pipeline import Pipeline
from ._stream import AppendStream
from .compaction import Compaction
from .errors import ContextStoreError
from .types import (
    Appended,
    ChatEvent,
    ChatMessage,
    CompressionConfig,
    CompressProgress,
    CompressResult,
    ContextUsage,
    Event,
    NewMessage,
    NewMessages,
    Plan,
    PlanAppended,
    Pressure,
    PruneConfig,
    Record,
    Rewound,
    StoredMessage,
    Summary,
    TaskConfig,
    TaskInfo,
    TaskState,
    TaskStatistics,
    ToolCallRecorded,
    Tools,
    Undone,
    WindowConfig,
)

if TYPE_CHECKING:
    from .client import Client


Hook: TypeAlias = "Callable[[Ending[Task]], object]"
"""Called before a task ends."""


def _refuse_coroutine(hook: Hook) -> None:
    if inspect.iscoroutinefunction(hook):
        raise TypeError("the hook is a coroutine function, which only an AsyncTask can await")


class Task(TaskBase):
    """A task and this client's lease of it. Made by `start_task`, `resume_task` and `task` of a client.

    The lease lives for `lease_ttl` after the last change or `renew_lease`; an agent that is silent for longer, while
    its model thinks, has to renew it. (The client does not do that in the background.) A lease that expired is only
    lost when another client takes the task: then changes raise StaleLease.
    """

    def __init__(
        self, client: Client, info: TaskInfo, lease_generation: int, lease_ttl: timedelta | None
    ) -> None:
        super().__init__(info, lease_generation, lease_ttl)
        self._hooks: Hooks[Task] = Hooks()
        self.client = client
        """The client it belongs to."""

    def get(self, *, timeout: float | None = None) -> TaskState:
        """The task as it is now (`task`), and how full its context is (`pressure`)."""
        return self.client._run(self._calls.get(), timeout)

    def context_usage(self, *, tools: Tools | None = None, timeout: float | None = None) -> ContextUsage:
        """How full the context is, as every append answers it, and how that is counted; with tools that are to be sent.

        It takes the same time however long the context is.
        """
        return self.client._run(self._calls.context_usage(tools), timeout)

    # Messages

    def append(
        self,
        message: ChatMessage,
        *,
        pinned: bool = False,
        output_ref: str = "",
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> Appended:
        """Appends an OpenAI chat message; it is on disk when this returns.

        `output_ref` names the full output of a tool, if the message holds a cut view of it. `request_id` names the
        call, for an agent that repeats it after a restart of its own; without one the client makes one.
        """
        new = NewMessage(message, pinned, output_ref, request_id)
        return self.client._run(self._calls.append(new), timeout)

    def append_many(
        self, messages: Iterable[NewMessage | ChatMessage], *, timeout: float | None = None
    ) -> Generator[Appended, None, None]:
        """Appends messages without waiting for each, and yields an acknowledgement for each, in order.

        Nothing happens until the answer is iterated over: `for ack in task.append_many(messages)`. The first message
        that is refused ends it with its error: it is the one behind the last acknowledgement, and nothing behind it
        was appended. `timeout` is how long to wait for an acknowledgement. A broken connection is taken up again. At
        most 512 messages, or 8 MiB, wait for their acknowledgements.
        """
        pipeline = Pipeline(self.client.timeout if timeout is None else timeout)
        stream = AppendStream(self.client.stub, pipeline, self.client.stream_timeout)
        try:
            for request in itertools.chain(map(self._calls.append_in_stream, messages), (None,)):
                if request is None:
                    pipeline.finish()
                    stream.finish()
                else:
                    pipeline.add(request)
                    stream.send(request)
                while not pipeline.done and (answer := stream.answer(pipeline.wait)) is not None:
                    if not isinstance(answer, ContextStoreError):
                        yield pipeline.acknowledge(answer)
                        continue
                    self.client._pause(pipeline.pause_after(answer))
                    stream.close()
                    stream = AppendStream(self.client.stub, pipeline, self.client.stream_timeout)
                    if pipeline.finished:
                        stream.finish()
        finally:
            stream.close()

    def get_message(self, seq: int, *, timeout: float | None = None) -> StoredMessage:
        """One message as it stands in the log."""
        return self.client._run(self._calls.get_message(seq), timeout)

    def pin(self, seq: int, *, timeout: float | None = None) -> None:
        """Pins a message: no compaction takes it out of the view."""
        self.client._run(self._calls.pin(seq), timeout)

    def unpin(self, seq: int, *, timeout: float | None = None) -> None:
        """Releases a pinned message."""
        self.client._run(self._calls.unpin(seq), timeout)

    def rewind(self, seq: int, *, timeout: float | None = None) -> Rewound:
        """Takes the view back to what it was after a message. The log keeps everything."""
        return self.client._run(self._calls.rewind(seq), timeout)

    # Keeping it small

    def compress(
        self,
        strategy: str | None = None,
        *,
        target_tokens: int | None = None,
        overrides: CompressionConfig | Mapping[str, Any] | None = None,
        prune: PruneConfig | Mapping[str, Any] | None = None,
        window: WindowConfig | Mapping[str, Any] | None = None,
        on_progress: Callable[[CompressProgress], object] | None = None,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> CompressResult:
        """Compresses the context now, whatever its pressure; others may append and read meanwhile.

        `strategy` is `summarize`, `compact`, `prune` or `window`; without one, the task's own. `target_tokens` are what
        the view is to have afterwards, at most; `overrides`, `prune` and `window` are what is to be otherwise than
        configured. A context of which nothing can go is no error: `compressed` is false, and `reason` says why.
        `on_progress` is called with each step. The server goes on if the caller goes away; `timeout` is for the whole
        call, and without one the server watches over its summariser.
        """
        call = _compress.compress(self._calls, strategy, target_tokens, overrides, prune, window, request_id)
        outcome = _compress.Outcome(on_progress)
        for event in self.client._stream(call, timeout):
            outcome.take(event)
        return outcome.result()

    def begin_compaction(
        self,
        strategy: str | None = None,
        *,
        target_tokens: int | None = None,
        overrides: CompressionConfig | Mapping[str, Any] | None = None,
    ) -> Compaction:
        """Asks for what to summarise, for an agent that summarises by itself; see Compaction.

        Nothing else compresses the task until it is committed or given up, or its time is over.
        NothingToSummarize if there is nothing to.
        """
        call = _compress.begin(self._calls, strategy, target_tokens, overrides)
        stream = self.client._stream(call, self.client.stream_timeout)
        return Compaction(self.client, self._calls, stream)

    def undo_compaction(self, *, request_id: str | None = None, timeout: float | None = None) -> Undone:
        """Takes back the newest compaction in force: the view is what it was before, and what was appended since.

        NothingToUndo if there is none. Automatic compression waits for new messages then.
        """
        return self.client._run(_compress.undo(self._calls, request_id), timeout)

    def fork(
        self, at_seq: int = 0, *, new_task_uuid: str | None = None, timeout: float | None = None
    ) -> Task:
        """Makes another task out of the messages up to `at_seq`, or of all; each of the two stands alone."""
        return self.client.fork_task(self.uuid, at_seq=at_seq, new_task_uuid=new_task_uuid, timeout=timeout)

    # The model

    def chat(
        self,
        messages: NewMessages = (),
        *,
        provider: str = "",
        model: str = "",
        params: Mapping[str, Any] | None = None,
        tools: Tools | None = None,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> Generator[ChatEvent, None, None]:
        """A turn of a model: appends the messages, sends the context, yields the answer as it arrives, appends it.

        Nothing happens until it is iterated over. ChatStarted comes first and ChatDone last; closing the generator
        before that cancels the call, and what arrived stays in the log as interrupted. Who is asked is what the call
        says, else the task, else the server. `params` are fields of the body in the provider's own words; `tools` have
        the form of OpenAI's chat completions, whoever is asked.

        The call is repeated, under the same request id, while the server cannot be reached and nothing has arrived;
        never after that. An agent that then wants the same turn calls again with the `request_id` of its own: what was
        answered is told again and not asked again. `timeout` is for the whole answer; without one, the server watches
        over the provider.
        """
        call = _chat.chat(self._calls, messages, provider, model, params, tools, request_id)
        return self.client._stream(call, timeout)

    def request(
        self,
        provider: str,
        *,
        model: str = "",
        params: Mapping[str, Any] | None = None,
        tools: Tools | None = None,
        max_bytes: int = 0,
    ) -> Generator[bytes, None, None]:
        """What the model sees as the body of a request to a provider, for an HTTP client of the agent's own.

        Made to be streamed: `httpx.post(url, content=task.request("openai", model="gpt-5"))`. It is valid whatever
        happened to the task, and memory use is that of a chunk. `provider` is `openai`, `openai_responses`,
        `anthropic`, `ollama` or `lmstudio`. A body of more than `max_bytes` raises RequestTooLarge before its first byte.
        A connection that breaks after the first byte raises Unavailable: ask for the body again.
        """
        call = _chat.request(self._calls, provider, model, params, tools, max_bytes)
        return self.client._stream(call, self.client.stream_timeout)

    # Reading

    def current(self, *, chunk_bytes: int = 0, as_of_seq: int = 0) -> Generator[bytes, None, None]:
        """What the model sees, current.jsonl, in chunks of bytes: one snapshot. Memory use is that of a chunk.

        A broken connection is taken up again where it was; if the view was rewritten meanwhile, ViewRewritten.
        `as_of_seq`: as it was after that message.
        """
        return self.client._read(_cursors.CurrentCursor(self.uuid, chunk_bytes, as_of_seq))

    def current_messages(self, *, as_of_seq: int = 0) -> Generator[Record, None, None]:
        """What the model sees, as OpenAI chat messages, one by one."""
        lines = _cursors.LinesOfView()
        for chunk in self.current(as_of_seq=as_of_seq):
            yield from lines.take(chunk)

    def messages(
        self,
        *,
        from_seq: int = 0,
        to_seq: int = 0,
        limit: int = 0,
        follow: bool = False,
        kinds: Iterable[str] = (),
    ) -> Generator[Record, None, None]:
        """The history: lines of messages.jsonl, messages and events.

        `follow` goes on with what is appended later, until the caller stops. `kinds` are `message` and names of
        events; none: all.
        """
        return self.client._read(_cursors.HistoryCursor(self.uuid, from_seq, to_seq, limit, follow, kinds))

    def watch(self, *, resume_token: str = "") -> Generator[Event, None, None]:
        """What happens to the task, as it happens, until the caller stops.

        Each event has a `resume_token`, with which a later call goes on behind it. Without a token it begins when the
        first event is asked for. A broken connection is taken up again, and nothing is missed.
        """
        return self.client._read(_cursors.WatchCursor(self.uuid, resume_token))

    # Tools, plans, summaries, usage

    def record_tool_call(
        self,
        tool_name: str,
        *,
        arguments: Any = None,
        result: Any = None,
        output_ref: str = "",
        error: str | None = None,
        duration_ms: int | None = None,
        message_seq: int | None = None,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> ToolCallRecorded:
        """Records that a tool was executed. `arguments` and `result` are any JSON; with an `error` it failed."""
        call = self._calls.record_tool_call(
            tool_name, arguments, result, output_ref, error, duration_ms, message_seq, request_id
        )
        return self.client._run(call, timeout)

    def tool_calls(
        self, *, from_seq: int = 0, to_seq: int = 0, limit: int = 0
    ) -> Generator[Record, None, None]:
        """Lines of tools.jsonl."""
        return self.client._read(_cursors.tool_calls(self.uuid, from_seq, to_seq, limit))

    def append_plan(
        self,
        content: Any,
        *,
        plan_type: str = "",
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> PlanAppended:
        """Appends a plan: any JSON. `plan_type` is `initial`, `revision` or another word."""
        return self.client._run(self._calls.append_plan(content, plan_type, request_id), timeout)

    def latest_plan(self, *, timeout: float | None = None) -> Plan | None:
        """The newest plan; None if there is none."""
        return self.client._run(self._calls.latest_plan(), timeout)

    def plans(self, *, from_id: int = 0, to_id: int = 0, limit: int = 0) -> Generator[Record, None, None]:
        """Lines of planning.jsonl."""
        return self.client._read(_cursors.plans(self.uuid, from_id, to_id, limit))

    def latest_summary(self, *, timeout: float | None = None) -> Summary | None:
        """The newest summary; None if there is none."""
        return self.client._run(self._calls.latest_summary(), timeout)

    def summaries(self, *, limit: int = 0) -> Generator[Record, None, None]:
        """Lines of summaries.jsonl."""
        return self.client._read(_cursors.SummaryCursor(self.uuid, limit))

    def record_usage(
        self,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cache_creation_tokens: int = 0,
        cache_read_tokens: int = 0,
        tools_tokens: int = 0,
        timeout: float | None = None,
    ) -> Pressure:
        """Reports one call of the LLM. The four are disjoint: take cached tokens out of OpenAI's input.

        `tools_tokens` are those of the tools that were sent, as `context_usage` counts them: so counts are compared
        with like.
        """
        call = self._calls.record_usage(
            input_tokens, output_tokens, cache_creation_tokens, cache_read_tokens, tools_tokens
        )
        return self.client._run(call, timeout)

    def update_statistics(
        self,
        *,
        llm_calls: int = 0,
        tool_calls: int = 0,
        tokens: int = 0,
        compressions: int = 0,
        timeout: float | None = None,
    ) -> TaskStatistics:
        """Adds to the task's counters."""
        call = self._calls.update_statistics(llm_calls, tool_calls, tokens, compressions)
        return self.client._run(call, timeout)

    # Its life

    def update(self, config: TaskConfig | Mapping[str, Any], *, timeout: float | None = None) -> TaskInfo:
        """Replaces the configuration as a whole."""
        return self._now(self.client._run(self._calls.update(config), timeout))

    def renew_lease(self, *, timeout: float | None = None) -> timedelta:
        """Keeps the lease alive; answers for how long."""
        return self.client._run(self._calls.renew_lease(), timeout)

    # Hooks

    def on_complete(self, name: str, hook: Hook) -> None:
        """Has a hook called before the task is completed, behind those that were registered before it.

        It is called with an Ending by `complete` of this object, in the agent's own process. One of the same name takes
        the place of the first. `hook_errors` says what an error does. If `complete` has to be called again, so are they.
        """
        _refuse_coroutine(hook)
        self._hooks.register(("completed",), name, hook)

    def on_stop(self, name: str, hook: Hook) -> None:
        """The same before the task is paused or failed."""
        _refuse_coroutine(hook)
        self._hooks.register(("paused", "failed"), name, hook)

    def _before(self, ending: Ending[Task]) -> None:
        self.hook_failures = []
        for name, hook in self._hooks.of(ending.status):
            try:
                hook(ending)
            except Exception as error:
                self.hook_failures.append(HookFailure(name, error))
                report(self.uuid, ending.status, self.hook_failures[-1], self.hook_errors)

    # Its end

    def pause(self, *, timeout: float | None = None) -> TaskInfo:
        """Puts the task aside; the lease ends."""
        self._before(Ending(self, "paused"))
        return self._without_lease(self.client._run(self._calls.pause(), timeout))

    def resume(self, *, timeout: float | None = None) -> TaskInfo:
        """Goes on with the task after a pause, under a new lease; StaleLease if somebody else did meanwhile."""
        resumed = self.client.resume_task(self.uuid, lease_generation=self._had, timeout=timeout)
        return self._with_lease_of(resumed)

    def complete(self, final_summary: str = "", *, timeout: float | None = None) -> TaskInfo:
        """Ends the task well. `final_summary` is what is to be remembered of it; without one, the server makes it."""
        self._before(Ending(self, "completed", final_summary))
        return self._without_lease(self.client._run(self._calls.complete(final_summary), timeout))

    def fail(self, error_message: str, *, final_summary: str = "", timeout: float | None = None) -> TaskInfo:
        """Ends the task badly."""
        self._before(Ending(self, "failed", final_summary, error_message))
        return self._without_lease(self.client._run(self._calls.fail(error_message, final_summary), timeout))

    def delete(self, *, timeout: float | None = None) -> None:
        """Removes the task with everything in it. Cannot be undone."""
        self.client._run(self._calls.delete(), timeout)
