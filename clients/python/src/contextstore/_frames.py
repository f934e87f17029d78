"""Errors as a caller wants to see them: the traceback ends at a line of the caller's, not inside this package."""

from __future__ import annotations

import ctypes
import functools
import inspect
import json
import os
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from types import AsyncGeneratorType, FunctionType, GeneratorType
from typing import Any, ParamSpec, TypeVar, cast

import google.protobuf
import grpc

from .errors import ContextStoreError

P = ParamSpec("P")
T = TypeVar("T")

_FULL = os.environ.get("CONTEXTSTORE_TRACEBACK") == "full"
_PARTS = (__file__, grpc.__file__, google.protobuf.__file__, json.__file__)
_INNER = tuple(os.path.dirname(part) + os.sep for part in _PARTS)
_TRIMMED = (ContextStoreError, TypeError, ValueError)
"""What callers bring about. Other errors are mistakes of this package, whose place matters."""
_SPECIAL = ("init", "enter", "exit", "iter", "next", "aenter", "aexit", "aiter", "anext")


def _trim(error: BaseException) -> None:
    """Takes the frames behind the last one of the caller's off a traceback. It is called where the error is caught, which a
    plain `raise` then leaves without a frame of its own."""
    if _FULL:
        return
    last, frame = None, error.__traceback__
    while frame is not None:
        if not frame.tb_frame.f_code.co_filename.startswith(_INNER):
            last = frame
        frame = frame.tb_next
    if last is not None:
        # A function of the caller's, called by this package.
        last.tb_next = None
    else:
        error.__traceback__ = None
        if sys.version_info < (3, 11):
            _forget_traceback(error)
    if isinstance(error.__cause__, grpc.RpcError):
        # It stays the context, which is not printed.
        error.__context__, error.__cause__ = error.__cause__, None


def _forget_traceback(error: BaseException) -> None:
    """Before Python 3.11, a plain `raise` takes the traceback from the thread's state, and not from the error."""
    python = ctypes.pythonapi
    arguments = [ctypes.py_object(type(error)), ctypes.py_object(error)]
    for argument in arguments:
        # PyErr_SetExcInfo takes these references over.
        python.Py_IncRef(argument)
    python.PyErr_SetExcInfo(*arguments, None)


def shown(method: Callable[P, T]) -> Callable[P, T]:
    """A function whose errors, and those of the generator that it returns, end at the caller's line."""
    if inspect.iscoroutinefunction(method):

        @functools.wraps(method)
        async def awaited(*args: P.args, **kwargs: P.kwargs) -> Any:
            try:
                return await method(*args, **kwargs)
            except _TRIMMED as error:
                _trim(error)
                raise

        return cast("Callable[P, T]", awaited)

    @functools.wraps(method)
    def called(*args: P.args, **kwargs: P.kwargs) -> Any:
        try:
            answer = method(*args, **kwargs)
        except _TRIMMED as error:
            _trim(error)
            raise
        if isinstance(answer, GeneratorType):
            return _iterated(answer)
        return _iterated_async(answer) if isinstance(answer, AsyncGeneratorType) else answer

    return called


def _iterated(inner: Generator[T, None, None]) -> Generator[T, None, None]:
    try:
        yield from inner
    except _TRIMMED as error:
        _trim(error)
        raise


async def _iterated_async(inner: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    try:
        async for item in inner:
            yield item
    except _TRIMMED as error:
        _trim(error)
        raise
    finally:
        await inner.aclose()


def show(*kinds: type[Any]) -> None:
    """The same for all public methods of classes."""
    for kind in kinds:
        for name in dir(kind):
            member = inspect.getattr_static(kind, name)
            function = getattr(member, "__func__", member)
            if not isinstance(function, FunctionType) or function.__module__.partition(".")[0] != __package__:
                continue
            if name.startswith("_") and name.strip("_") not in _SPECIAL or hasattr(function, "__wrapped__"):
                continue
            wrapped: Any = shown(function)
            setattr(kind, name, classmethod(wrapped) if isinstance(member, classmethod) else wrapped)
