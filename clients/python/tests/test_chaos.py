"""Random work on one task by many at once, while the server is killed and clients are closed: what was reported as saved is
there once, in order; everything else was reported as not saved, and can be appended again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import threading
import time
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Iterator

from serving import DEADLINE, LONG, Server

from contextstore import AsyncClient, AsyncTask, Client, NewMessage, Task, UnsavedWarning, errors

SESSIONS = 60 if LONG else 6
"""Clients that come one after the other. What one of them reports is appended again by the next."""
WORKERS = 3
STEPS = 60
"""Of each worker: in all fewer messages than the server remembers request ids."""


class Broken(Exception):
    """What the source of an append_many raises."""


class Ledger:
    """Who has handed over what, and what was reported as not saved."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.handed: dict[str, NewMessage] = {}
        self.reported: dict[str, NewMessage] = {}
        self.resent: set[str] = set()
        self.kills = 0

    def __str__(self) -> str:
        return f"seed {self.seed}: {len(self.handed)} messages, {len(self.resent)} of them again, {self.kills} kills"

    def new(self, worker: str) -> NewMessage:
        """A message that nobody else has."""
        name = f"{worker}-{len(self.handed)}"
        return self.take(NewMessage({"role": "user", "content": name}, output_ref=name, request_id=name))

    def take(self, message: NewMessage) -> NewMessage:
        """A message that is handed over from now on."""
        self.handed[message.output_ref] = message
        return message

    def lost(self, *messages: NewMessage) -> None:
        """Messages that were reported as not saved."""
        for message in messages:
            assert message.request_id == message.output_ref, message
            self.reported[message.output_ref] = message

    def take_reported(self) -> list[NewMessage]:
        """What is to be appended again."""
        again = list(self.reported.values())
        self.resent.update(self.reported)
        self.reported.clear()
        return again

    def check(self, logged: list[str]) -> None:
        """What was not reported is there once; that of a worker in the order in which it was handed over."""
        said = f"seed {self.seed}"
        counts = Counter(logged)
        assert all(count == 1 for count in counts.values()), (said, counts.most_common(5))
        saved = [name for name in self.handed if name not in self.reported]
        assert [name for name in saved if name not in counts] == [], said
        for worker in {name.split("-")[0] for name in saved}:
            mine = [name for name in saved if name.startswith(f"{worker}-") and name not in self.resent]
            assert [name for name in logged if name in set(mine)] == mine, said


def logged(server: Server, uuid: str) -> list[str]:
    """The messages of a task, as they are in the log."""
    with Client(server.unix) as client:
        client.wait_until_ready(timeout=DEADLINE)
        return [record["content"] for record in client.task(uuid).messages(kinds=["message"])]


def seed() -> int:
    return int(os.environ.get("CONTEXTSTORE_SEED") or random.SystemRandom().randrange(1 << 32))


@contextlib.contextmanager
def killed_now_and_then(server: Server, dice: random.Random, ledger: Ledger) -> Iterator[None]:
    """The server is killed and started again until the end of the block."""
    over = threading.Event()

    def kill() -> None:
        while not over.wait(dice.uniform(0.1, 0.4)):
            server.kill()
            ledger.kills += 1
            # It gets as far as to take calls: callers are not to be kept waiting for good.
            server.start()

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield
    finally:
        over.set()
        killer.join()


def work(task: Task, ledger: Ledger, worker: str, dice: random.Random) -> None:
    """One of the threads that share a task."""

    def source(count: int, breaks: bool) -> Iterator[NewMessage]:
        for _ in range(count):
            yield ledger.new(worker)
        if breaks:
            raise Broken

    for _ in range(STEPS):
        try:
            step = dice.random()
            if step < 0.5:
                task.append(ledger.new(worker), wait=False)
            elif step < 0.7:
                message = ledger.new(worker)
                try:
                    task.append(message)
                except ValueError:  # What grpcio says of a channel that was closed.
                    ledger.lost(message)
            elif step < 0.85:
                acks = task.append_many(source(dice.randrange(10), breaks=dice.random() < 0.3))
                with contextlib.suppress(Broken):
                    for _ in acks:
                        if dice.random() < 0.1:
                            break
                acks.close()
            elif step < 0.95:
                task.flush()
            else:
                time.sleep(dice.uniform(0, 0.02))
        except errors.ContextStoreError as error:
            ledger.lost(*error.not_appended)


# feature: chaos
def test_threads(server: Server) -> None:
    ledger = Ledger(seed())
    dice = random.Random(ledger.seed)
    with Client(server.unix, instance_id="chaos") as client:
        uuid = client.start_task(config={"compression": {"auto": False}}).uuid
    with killed_now_and_then(server, dice, ledger), warnings.catch_warnings():
        warnings.simplefilter("error", UnsavedWarning)
        for session in range(SESSIONS):
            client = Client(server.unix, instance_id="chaos", timeout=DEADLINE)
            client.wait_until_ready(timeout=DEADLINE)
            task = client.start_task(task_uuid=uuid)
            for ack in task.append_many(ledger.take_reported()):
                assert ack.seq > 0
            threads = [
                threading.Thread(
                    target=work, args=(task, ledger, f"{session}.{number}", random.Random(dice.random()))
                )
                for number in range(WORKERS)
            ]
            for thread in threads:
                thread.start()
            # Some clients are closed while the threads are at it.
            threads[0].join(timeout=dice.uniform(0, 1) if dice.random() < 0.5 else None)
            try:
                client.close()
            except errors.ContextStoreError as error:
                ledger.lost(*error.not_appended)
            for thread in threads:
                thread.join()
    ledger.check(logged(server, uuid))
    with Client(server.unix, instance_id="chaos") as client:
        list(client.start_task(task_uuid=uuid).append_many(ledger.take_reported()))
    names = logged(server, uuid)
    ledger.check(names)
    assert sorted(names) == sorted(ledger.handed) and ledger.kills > 0
    print(ledger)


async def async_work(task: AsyncTask, ledger: Ledger, worker: str, dice: random.Random) -> None:
    """One of the coroutines that share a task. Some of its calls are cancelled."""

    async def source(count: int, breaks: bool) -> AsyncIterator[NewMessage]:
        for _ in range(count):
            if dice.random() < 0.3:
                await asyncio.sleep(0)
            yield ledger.new(worker)
        if breaks:
            raise Broken

    async def step() -> None:
        kind = dice.random()
        if kind < 0.5:
            await task.append(ledger.new(worker), wait=False)
        elif kind < 0.7:
            message = ledger.new(worker)
            try:
                await task.append(message)
            except errors.ContextStoreError:
                raise
            except BaseException:
                # It may have happened or not, and is appended again under its own request id.
                ledger.lost(message)
                raise
        elif kind < 0.85:
            acks = task.append_many(source(dice.randrange(10), breaks=dice.random() < 0.3))
            with contextlib.suppress(Broken):
                async with contextlib.aclosing(acks):
                    async for _ in acks:
                        if dice.random() < 0.1:
                            break
        elif kind < 0.95:
            await task.flush()
        else:
            await asyncio.sleep(dice.uniform(0, 0.02))

    for _ in range(STEPS):
        try:
            limit = dice.uniform(0, 0.01) if dice.random() < 0.3 else None
            await asyncio.wait_for(step(), limit)
        except asyncio.TimeoutError:
            pass
        except errors.ContextStoreError as error:
            ledger.lost(*error.not_appended)


# feature: chaos
def test_coroutines(server: Server) -> None:
    ledger = Ledger(seed())
    dice = random.Random(ledger.seed)

    async def session(uuid: str, number: int) -> None:
        client = AsyncClient(server.unix, instance_id="chaos", timeout=DEADLINE)
        await client.wait_until_ready(timeout=DEADLINE)
        task = await client.start_task(task_uuid=uuid)
        async for ack in task.append_many(ledger.take_reported()):
            assert ack.seq > 0
        workers = [
            asyncio.create_task(async_work(task, ledger, f"{number}.{worker}", random.Random(dice.random())))
            for worker in range(WORKERS)
        ]
        if dice.random() < 0.5:
            await asyncio.wait(workers, timeout=dice.uniform(0, 1))
        else:
            await asyncio.wait(workers)
        try:
            await client.close()
        except errors.ContextStoreError as error:
            ledger.lost(*error.not_appended)
        for result in await asyncio.gather(*workers, return_exceptions=True):
            # A call on a closed channel: grpcio's own error, or its cancellation.
            closed = isinstance(result, asyncio.CancelledError) or "closed" in repr(result)
            assert result is None or closed, result

    with Client(server.unix, instance_id="chaos") as client:
        uuid = client.start_task(config={"compression": {"auto": False}}).uuid
    with killed_now_and_then(server, dice, ledger), warnings.catch_warnings():
        warnings.simplefilter("error", UnsavedWarning)
        for number in range(SESSIONS):
            asyncio.run(session(uuid, number))
    ledger.check(logged(server, uuid))
    with Client(server.unix, instance_id="chaos") as client:
        list(client.start_task(task_uuid=uuid).append_many(ledger.take_reported()))
    names = logged(server, uuid)
    ledger.check(names)
    assert sorted(names) == sorted(ledger.handed) and ledger.kills > 0
    print(ledger)
