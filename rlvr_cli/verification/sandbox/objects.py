"""The conversation of two processes: each asks the other for calls, attributes and operators.

The tests' process asks the program's; while that calls back what it was given as an argument, such
as a function of the tests, the roles are exchanged. It runs inside the sandbox and imports only the
standard library.
"""

import _thread
import copy
import operator
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakValueDictionary

from rlvr_cli.verification.sandbox import mirrors, records, shared, values
from rlvr_cli.verification.sandbox.mirrors import MirrorType

Message = dict[str, Any]
_EXACT: dict[type, Callable[[Any], Any]] = {
    int: int.__index__,
    float: float.__float__,
    str: str.__str__,
    complex: complex.__pos__,
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
    tuple: lambda value: tuple(tuple.__iter__(value)),
    frozenset: lambda value: frozenset(frozenset.__iter__(value)),
}


_GENERATORS = {kind.__qualname__: kind for kind in (types.GeneratorType, types.AsyncGeneratorType)}


class Peer:
    """One side of the conversation; the program's is this one, the tests' trusts less."""

    gives_results = True  # that nothing here refers to; tests may refer to what they pass
    sends_functions = False  # of the standard library by name, so that they run over there

    def __init__(self, exchange: Callable[[Message], Message], first: int) -> None:
        self._exchange = exchange
        self._shared = shared.Shared(first)
        self._lock = _thread.RLock()  # one conversation for all threads
        self._own: dict[int, Any] = {}
        self._refs: dict[int, int] = {}
        self._next = 1
        self._described: set[int] = set()
        self._classes: dict[int, type] = {}
        self._built_in: dict[type, type] = {}
        self._class_refs: dict[type, int] = {}
        self._weak: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self._strong: dict[int, Any] = {}
        self._released: set[int] = set()
        self._reading = 0  # messages, as hashing what is read may ask
        self._is_early = False  # whether the other side is reading one

    def ask(self, *request: Any) -> Any:
        """What the other side answers; what it raises is raised here."""
        with self._lock:
            return self._asked(request)

    def _asked(self, request: tuple[Any, ...]) -> Any:
        message = self._exchange(self.encode(request))
        while True:
            kind, *rest = self.decode(message)
            if kind == "value":
                return rest[0]
            if kind == "error":
                raise rest[0]
            message = self._exchange(self.answer((kind, *rest)))

    def answer(self, request: tuple[Any, ...]) -> Message:
        """The message that answers a request."""
        try:
            result = ("value", self.serve(*request))
            return self.encode(result)
        except Exception as error:
            return self.encode(("error", error))

    def serve(self, what: str, *arguments: Any) -> Any:
        """Does what the other side asks for."""
        serving: Callable[..., Any] = getattr(self, f"on_{what}")
        return serving(*arguments)

    def on_call(self, function: Any, arguments: Any, named: Any) -> Any:
        return function(*arguments, **dict(named))

    def on_get(self, value: Any, name: str) -> Any:
        return getattr(value, name)

    def on_set(self, value: Any, name: str, new: Any) -> None:
        setattr(value, name, new)

    def on_del(self, value: Any, name: str) -> None:
        delattr(value, name)

    def on_op(self, kind: Any, name: str, value: Any, arguments: Any) -> Any:
        return _operator(kind or type(value), name, value)(*arguments)

    def on_items(self, value: Any) -> list[Any]:
        return list(value)

    def on_item(self, value: Any, key: Any) -> Any:
        return value[key]

    def on_copy(self, value: Any) -> Any:
        return copy.copy(value)

    def on_deepcopy(self, value: Any) -> Any:
        return copy.deepcopy(value)

    def on_dir(self, value: Any) -> list[str]:
        return dir(value)

    def trusts(self, kind: type) -> bool:
        return True

    def released(self, ref: int) -> None:
        self._released.add(ref)

    def derive(self, name: str) -> Any:
        raise TypeError(f"{name} derives from a class of another process")

    def encode(self, root: tuple[Any, ...]) -> Message:
        is_result = self.gives_results and root[0] == "value"
        encoder = values.Encoder(self._shared, self._node, is_result=is_result)
        message = encoder.message(root, is_settled=not self._reading and not self._is_early)
        if self._reading:
            message["early"] = True
        if self._released:
            message["released"], self._released = list(self._released), set()
        return message

    def decode(self, message: Message) -> Any:
        for ref in message.get("released", ()):
            if ref in self._own:
                del self._refs[id(self._own.pop(ref))]
        self._is_early = bool(message.get("early"))
        self._reading += 1
        try:
            return values.Decoder(self._shared, self._read, _needed).message(message)
        finally:
            self._reading -= 1

    def _node(self, encoder: values.Encoder, value: Any, by_value: bool) -> list[Any]:
        """The node of an object, not plain data: its number, and what the other side must know."""
        if isinstance(value, type):
            return self._class_node(encoder, value)
        ref = mirrors.ref_of(value)
        is_mirror = ref is not None and self._mirror_of(ref) is value
        base = shared.plain_base(type(value))
        if isinstance(value, types.ModuleType) and is_public(value.__name__):
            return ["module", value.__name__]
        if self.sends_functions and (place := _place_of(value)):
            return ["function", *place]
        own = ["yours", ref] if is_mirror else [self._ref(value), encoder.item(type(value))]
        if base is not None and base not in _EXACT:
            return encoder.container(value, by_value, own)
        if is_mirror:
            return own
        if isinstance(value, BaseException):
            return ["exception", *own, encoder.item(_arguments(value)), _state(encoder, value)]
        if isinstance(value, types.CoroutineType):
            return ["coroutine", *own]
        exact = None if base is None else _EXACT[base](value)
        return ["own", *own, encoder.item(exact)]

    def _class_node(self, encoder: values.Encoder, kind: type) -> list[Any]:
        if kind in self._class_refs:
            return ["yours", self._class_refs[kind]]
        if is_known(kind):
            return ["known", kind.__module__, kind.__qualname__]
        ref = self._ref(kind)
        if ref in self._described:
            return ["class", ref]
        self._described.add(ref)
        base = shared.plain_base(kind)
        names = [
            name
            for name in vars(kind)
            if name in mirrors.FORWARDED
            or (kind is types.FunctionType and name == "__get__")
            or (base and hasattr(base, name) and name[:2] != "__")
        ]
        bases = encoder.items(kind.__bases__)
        return ["class", ref, str(kind.__name__), bases, names, kind.__hash__ is not None]

    def _ref(self, value: Any) -> int:
        ref = self._refs.get(id(value))
        if ref is None:
            ref, self._next = self._next, self._next + 1
            self._refs[id(value)] = ref
            self._own[ref] = value
        return ref

    def _read(self, decoder: values.Decoder, node: list[Any]) -> Any:
        tag, *rest = node
        reading: Callable[..., Any] = getattr(self, f"_read_{tag.replace(' ', '_')}")
        return reading(decoder, *rest)

    def _read_yours(self, decoder: values.Decoder, ref: int) -> Any:
        return self._own[ref]

    def _read_known(self, decoder: values.Decoder, module: str, name: str) -> Any:
        kind = known(module, name)
        if kind is None:
            raise ValueError("no known class")
        return kind

    def _read_function(self, decoder: values.Decoder, module: str, name: str) -> Any:
        __import__(module)
        return operator.attrgetter(name)(sys.modules[module])

    def _read_module(self, decoder: values.Decoder, name: str) -> Any:
        if not is_public(name):
            raise ValueError("no module of the standard library")
        __import__(name)
        return sys.modules[name]

    def _read_class(self, decoder: values.Decoder, ref: int, *description: Any) -> Any:
        if ref not in self._classes:
            name, bases, names, is_hashable = description
            kinds = [decoder.value(item) for item in bases]
            mirror = mirrors.make_class(
                self, str(name), kinds, names, is_hashable=bool(is_hashable)
            )
            self._classes[ref], self._class_refs[mirror] = mirror, ref
        return self._classes[ref]

    def _mirror_class(self, decoder: values.Decoder, kind: Any) -> type:
        """The class for an object of the other side."""
        type_read = decoder.value(kind)
        if isinstance(type_read, MirrorType):
            return type_read
        if (
            not isinstance(type_read, type)
            or shared.plain_base(type_read)
            or type_read in (object, type)
        ):
            raise ValueError("no class of the other side")
        if type_read not in self._built_in:  # such as `zip`, which both have
            names = [name for name in vars(type_read) if name in mirrors.FORWARDED]
            self._built_in[type_read] = mirrors.make_class(
                self, type_read.__name__, [], names, is_hashable=True, stands_for=type_read
            )
        return self._built_in[type_read]

    def _read_container(self, decoder: values.Decoder, base: type, ref: Any, kind: Any) -> Any:
        """One that a class of its own derives from built-in data; it is filled later."""
        if ref == "yours":
            return self._own[kind]
        if (mirror := self._mirror_of(ref)) is not None:
            return mirror
        making: Any = base
        return self._keep(making.__new__(self._mirror_class(decoder, kind)), ref)

    def _read_own(self, decoder: values.Decoder, ref: int, kind: Any, plain: Any) -> Any:
        if (mirror := self._mirror_of(ref)) is not None:
            return mirror
        mirror_class = self._mirror_class(decoder, kind)
        base: Any = shared.plain_base(mirror_class)
        if base is None:
            return self._keep(object.__new__(mirror_class), ref)
        return self._keep(base.__new__(mirror_class, decoder.value(plain)), ref)

    def _read_coroutine(self, decoder: values.Decoder, ref: int, kind: Any) -> Any:
        handle = self._read_own(decoder, ref, kind, None)

        async def drive() -> Any:
            return self.ask("wait", handle)

        return drive()

    def _read_exception(
        self, decoder: values.Decoder, ref: int, kind: Any, arguments: Any, state: Any
    ) -> BaseException:
        if (mirror := self._mirror_of(ref)) is not None:
            return mirror  # type: ignore[no-any-return]
        error_class, given = decoder.value(kind), decoder.value(arguments)
        if not (isinstance(error_class, type) and issubclass(error_class, BaseException)):
            raise ValueError("no exception")
        try:
            error = error_class.__new__(error_class, *given)
            if not isinstance(error_class, MirrorType):
                error.__init__(*given)  # type: ignore[misc]
        except (TypeError, ValueError):
            error = error_class.__new__(error_class)
            error.args = given
        for name, value in state:
            object.__setattr__(error, name, decoder.value(value))
        return self._keep(error, ref)  # type: ignore[no-any-return]

    def _mirror_of(self, ref: int) -> Any:
        self._released.discard(ref)
        weak = self._weak.get(ref)
        return self._strong.get(ref) if weak is None else weak

    def _keep(self, mirror: Any, ref: int) -> Any:
        object.__setattr__(mirror, "_rlvr_ref", ref)
        try:
            self._weak[ref] = mirror
        except TypeError:
            self._strong[ref] = mirror
        return mirror


def _needed(node: list[Any]) -> Iterable[Any]:
    """The items that a node of an object needs before it is read."""
    tag = node[0]
    if tag == "class":
        return node[3] if len(node) > 2 else []
    if tag == "exception":
        return [*node[2:4], *(item for _, item in node[4])]
    if tag in ("own", "coroutine"):
        return node[2:]
    return []


def _arguments(error: BaseException) -> tuple[Any, ...]:
    if isinstance(error, OSError) and error.filename is not None:
        return (error.errno, error.strerror, error.filename)
    return error.args


def _state(encoder: values.Encoder, error: BaseException) -> list[Any]:
    """Its cause, and the attributes that the standard library gives an exception of its own."""
    state = [["__cause__", encoder.item(error.__cause__)]] if error.__cause__ else []
    if is_known(type(error)):
        state += [[name, encoder.item(value)] for name, value in vars(error).items()
                  if name.isidentifier() and not name.startswith("_")]  # fmt: skip
    return state


def is_public(module: str) -> bool:
    """Whether a module is one of the standard library that tests may have for the asking."""
    return module.partition(".")[0] in sys.stdlib_module_names and not module.startswith("_")


def is_known(kind: type) -> bool:
    """Whether it is a class that both sides have: of plain data, or a library's exception."""
    return known(kind.__module__, kind.__qualname__) is kind


def _operator(kind: type, name: str, value: Any) -> Any:
    """What an operator calls: an attribute of the class that is bound only if it binds itself, as
    functions do and mocks do not."""
    for base in kind.__mro__:
        if name in vars(base):
            found = vars(base)[name]
            bind = getattr(type(found), "__get__", None)
            return bind(found, value, kind) if bind else found
    raise AttributeError(f"type object {kind.__name__!r} has no attribute {name!r}")


def known(module: str, name: str) -> Any:
    """The class of a name, if both sides may have it; None of any other."""
    if module == "builtins" and name in _GENERATORS:
        return _GENERATORS[name]
    if records.has_type(module, name):
        return records.type_of(module, name)
    kind = getattr(sys.modules.get(module), name, None) if is_public(module) else None
    if not (isinstance(kind, type) and issubclass(kind, BaseException)):
        return None
    # A `SkipTest` that a program raises would end a test that it has to pass.
    return None if kind.__module__.startswith("unittest") else kind


def _place_of(value: Any) -> tuple[str, str] | None:
    """The module and name of a function or class of the standard library."""
    if type(value) not in (types.BuiltinFunctionType, types.FunctionType):
        return None
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or not is_public(module):
        return None
    reached: Any = sys.modules.get(module)
    for part in name.split("."):
        reached = getattr(reached, part, None)
    return (module, name) if reached is value else None
