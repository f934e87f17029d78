# Made from async_task.py by unasync.py: change that module, then run `make gen-sync`.
"""A task, for threads: everything an agent does with its context."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, Literal, overload

from . import _chat, _compress, _cursors
from ._calls import append_alone, appended, completed_message
from ._io import Messages, each
from ._pipeline import Batch, again, at_index, keep
from ._task_records import TaskRecords
from .compaction import Compaction
from .errors import ContextStoreError
from .outputs import Outputs
from .streams import Current, RequestBody
from .toolcall import ToolCall
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
    PruneConfig,
    Record,
    Rewound,
    StoredMessage,
    TaskState,
    Tools,
    Undone,
    WindowConfig,
)


class Task(TaskRecords):
    """A task and this client's lease of it. Made by `task`, `start_task`, `resume_task` and `fork_task` of a client.

        with client.task({"task_id": "7"}) as task:
            task.append({"role": "user", "content": "Fix the failing test, please."})
            for event in task.chat(): ...

    As a context manager it ends with its block: completed; or failed with the error that left the block; or paused, if
    that was KeyboardInterrupt or SystemExit.

    The lease lives for `lease_ttl` after the last change or renewal; the client renews it in the background. A lease
    that expired is only lost when another client takes the task: then changes raise StaleLease, and `lease_lost` has
    the error.
    """

    def get(self, *, timeout: float | None = None) -> TaskState:
        """The task as it is now (`task`), and how full its context is (`pressure`)."""
        return self._run(self._calls.get(), timeout)

    def context_usage(self, *, tools: Tools | None = None, timeout: float | None = None) -> ContextUsage:
        """How full the context is, as every append answers it, and how that is counted; with tools that are to be sent.

        It takes the same time however long the context is.
        """
        return self._run(self._calls.context_usage(tools), timeout)

    # Messages

    @overload
    def append(
        self,
        message: NewMessage | ChatMessage,
        *,
        wait: Literal[True] = True,
        pinned: bool = False,
        output_ref: str = "",
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> Appended: ...

    @overload
    def append(
        self,
        message: NewMessage | ChatMessage,
        *,
        wait: bool,
        pinned: bool = False,
        output_ref: str = "",
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> Appended | None: ...

    def append(
        self,
        message: NewMessage | ChatMessage,
        *,
        wait: bool = True,
        pinned: bool = False,
        output_ref: str = "",
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> Appended | None:
        """Appends an OpenAI chat message: a mapping, its JSON, an object of the provider's own package, or a NewMessage.

        It is on disk when this returns. With `wait=False` it is handed to the background, which goes on whatever happens
        to the caller: it is on disk when the next call that waits returns (a read, a turn, a change of status, `flush`),
        or when the client is closed or the program ends. What went wrong is raised there; `not_appended` of the error has
        the messages, to be appended again as they are. If this call fails, its own message is the last of them. Messages
        keep their order.

        `output_ref` names the full output of a tool, if the message holds a cut view of it. `request_id` names the
        call, for an agent that repeats it after a restart of its own; without one the client makes one.
        """
        new = completed_message(message, pinned, output_ref, request_id)
        given = new
        try:
            request = self._calls.append(new) if wait else self._calls.append_in_stream(new)
            given = again(request)
            if wait:
                response = self._run(append_alone(request), timeout)
                return appended(response)
            self.client._check_size(request)
            self._appender.append(request)
            return None
        except Exception as error:
            keep(error, given)
            raise

    def append_many(
        self, messages: Messages, *, timeout: float | None = None
    ) -> Generator[Appended, None, None]:
        """Appends messages without waiting for each, and yields an acknowledgement for each, in order.

        Nothing happens until the answer is iterated over: `for ack in task.append_many(messages)`. The first
        message that is refused ends it with its error, whose `index` says which it is; nothing behind it was appended, and
        `not_appended` has what was handed over. If the messages cannot be iterated over to their end, or one of them cannot
        be sent, those before are appended and acknowledged before that is raised. `timeout` is how long to wait for an
        acknowledgement. A broken connection is taken up again. At most 512 messages, or 8 MiB, wait for their
        acknowledgements. If the caller stops before the end, those that were taken are appended as with `wait=False`.
        """
        self.flush()
        patience = self.client.timeout if timeout is None else timeout
        batch, index, failure = Batch(), 0, None
        given: NewMessage | None = None
        try:
            with contextlib.closing(each(messages)) as source:
                while failure is None:
                    given = None
                    try:
                        given = completed_message(next(source), False, "", None)
                        request = self._calls.append_in_stream(given, index)
                        given = again(request)
                        self.client._check_size(request)
                    except StopIteration:
                        break
                    except Exception as error:
                        failure = error if given is None else keep(error, given)
                        continue
                    yield from self._appender.send(request, batch, patience)
                    index += 1
            yield from self._appender.finish(batch, patience)
        except ContextStoreError as error:
            if failure is not None and given is not None:
                keep(error, given)
            raise
        finally:
            self._appender.abandon(batch)
        if failure is not None:
            raise at_index(failure, index)

    def get_message(self, seq: int, *, timeout: float | None = None) -> StoredMessage:
        """One message as it stands in the log."""
        return self._run(self._calls.get_message(seq), timeout)

    def pin(self, seq: int, *, timeout: float | None = None) -> None:
        """Pins a message: no compaction takes it out of the view."""
        self._run(self._calls.pin(seq), timeout)

    def unpin(self, seq: int, *, timeout: float | None = None) -> None:
        """Releases a pinned message."""
        self._run(self._calls.unpin(seq), timeout)

    def rewind(self, seq: int, *, timeout: float | None = None) -> Rewound:
        """Takes the view back to what it was after a message. The log keeps everything."""
        return self._run(self._calls.rewind(seq), timeout)

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
        configured. A context of which nothing can go is no error: `compressed` is false, and `skip_reason` says why.
        `on_progress` is called with each step. The server goes on if the caller goes away; `timeout` is for the whole
        call, and without one it is the client's `llm_timeout`.
        """
        call = _compress.compress(self._calls, strategy, target_tokens, overrides, prune, window, request_id)
        outcome = _compress.Outcome(on_progress)
        for event in self._stream(call, self.client.llm_timeout if timeout is None else timeout):
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
        stream = self._stream(call, self.client.stream_timeout)
        return Compaction._begin(self.client, self._calls, stream)

    def undo_compaction(self, *, request_id: str | None = None, timeout: float | None = None) -> Undone:
        """Takes back the newest compaction in force: the view is what it was before, and what was appended since.

        NothingToUndo if there is none. Automatic compression waits for new messages then.
        """
        return self._run(_compress.undo(self._calls, request_id), timeout)

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
        answered is told again and not asked again. `timeout` is for the whole answer; without one it is the client's
        `llm_timeout`.
        """
        call = _chat.chat(self._calls, messages, provider, model, params, tools, request_id)
        return self._stream(call, self.client.llm_timeout if timeout is None else timeout)

    def request_body(
        self,
        provider: str,
        *,
        model: str = "",
        params: Mapping[str, Any] | None = None,
        tools: Tools | None = None,
        max_bytes: int = 0,
    ) -> RequestBody:
        """What the model sees as the body of a request to a provider, for an HTTP client of the agent's own.

        Made to be streamed: `httpx.post(url, content=task.request_body("openai", model="gpt-5"))`. It is valid whatever
        happened to the task, and memory use is that of a chunk. `provider` is `openai`, `openai_responses`,
        `anthropic`, `ollama` or `lmstudio`. A body of more than `max_bytes` raises RequestTooLarge before its first byte.
        A connection that breaks after the first byte raises Unavailable: iterate over the body again.
        """
        call = _chat.request(self._calls, provider, model, params, tools, max_bytes)
        return RequestBody(lambda: self._stream(call, self.client.stream_timeout))

    def request(
        self,
        provider: str,
        *,
        model: str = "",
        params: Mapping[str, Any] | None = None,
        tools: Tools | None = None,
        max_bytes: int = 0,
    ) -> Generator[bytes, None, None]:
        """The chunks of `request_body`, once."""
        return iter(self.request_body(provider, model=model, params=params, tools=tools, max_bytes=max_bytes))

    # Reading

    def current(self, *, chunk_bytes: int = 0, as_of_seq: int = 0) -> Current:
        """What the model sees, current.jsonl: one snapshot, read in chunks of bytes. Memory use is that of a chunk.

        Iterate over it for the chunks, `read` it like a file, or take its `messages()` one by one or as a `to_list()`.
        A broken connection is taken up again where it was; if the view was rewritten meanwhile, ViewRewritten.
        `as_of_seq`: as it was after that message.
        """
        return Current(self._read(_cursors.CurrentCursor(self.uuid, chunk_bytes, as_of_seq)))

    def current_messages(self, *, as_of_seq: int = 0) -> Generator[Record, None, None]:
        """What the model sees, as OpenAI chat messages, one by one: `current().messages()`."""
        return self.current(as_of_seq=as_of_seq).messages()

    def messages(
        self,
        *,
        from_seq: int = 0,
        to_seq: int = 0,
        limit: int = 0,
        follow: bool = False,
        kinds: Iterable[str] | str = (),
    ) -> Generator[Record, None, None]:
        """The history: lines of messages.jsonl, messages and events.

        `follow` goes on with what is appended later, until the caller stops. `kinds` are `message` and names of
        events; none: all.
        """
        return self._read(_cursors.HistoryCursor(self.uuid, from_seq, to_seq, limit, follow, kinds))

    def watch(self, *, resume_token: str = "") -> Generator[Event, None, None]:
        """What happens to the task, as it happens, until the caller stops.

        Each event has a `resume_token`, with which a later call goes on behind it. Without a token it begins when the
        first event is asked for. A broken connection is taken up again, and nothing is missed.
        """
        return self._read(_cursors.WatchCursor(self.uuid, resume_token))

    # Tools

    @property
    def output(self) -> Outputs:
        """The outputs of its tools: `task.output.put(…)`, `read`, `grep`, `stat`, `list`, `trim`."""
        return Outputs(self)

    def tool(
        self,
        name: str,
        *,
        arguments: Any = None,
        call_id: str = "",
        message_seq: int | None = None,
        suppress: bool = False,
    ) -> ToolCall:
        """Times a call of a tool, and records it; see ToolCall.

            with task.tool("read_file", arguments={"path": path}, call_id=call["id"]) as call:
                call.output = Path(path)

        With the `call_id` of the model's call, the message that answers it is appended too. An error in the block is
        recorded (and told to the model), and raised unless `suppress` is set.
        """
        return ToolCall(self, name, arguments, call_id, message_seq, suppress)
