"""A model of the commit protocol, explored over all interleavings (RELIABILITY 1.6, rig 7).

Writers each commit once to a store that creates an object at most once. The network may lose a request or
an answer, deliver a request late, and deliver it twice; a writer may run out of patience at any moment and
may crash at any moment. After anything but a plain yes a writer reads the version back and compares ids.

Invariants, in every state that can be reached: no label twice in the log, no gap, what was acknowledged is
where it was said to be, and nobody takes its own entry for another writer's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

READY, WAITING, ASKING, DONE, CRASHED, GAVE_UP = range(6)


class Protocol(NamedTuple):
    """The rules; the mutants switch one of them off."""

    writers: int = 3
    most_sends: int = 2
    reads_back: bool = True
    creates_once: bool = True


class Writer(NamedTuple):
    """Where one writer is: its phase, the version it wants, and how often it has sent it."""

    phase: int = READY
    version: int = 0
    sends: int = 0


class World(NamedTuple):
    """The log (whose entry each version is), requests under way (writer, version, copies), the writers."""

    log: tuple[int, ...]
    requests: tuple[tuple[int, int, int], ...]
    writers: tuple[Writer, ...]
    fault: str = ""


class Exploration(NamedTuple):
    """How many states and steps were looked at, and the faults that were found."""

    states: int
    steps: int
    faults: frozenset[str]


def explore(protocol: Protocol) -> Exploration:
    """Visit every state that can be reached, or stop at the first that breaks an invariant."""
    start = World((), (), (Writer(),) * protocol.writers)
    seen, queue, steps = {start}, deque([start]), 0
    faults: set[str] = set()
    while queue and not faults:
        world = queue.popleft()
        for step in _steps(world, protocol):
            steps += 1
            following = _normal(step, protocol)
            if following in seen:
                continue
            seen.add(following)
            faults |= _faults(following)
            queue.append(following)
    return Exploration(len(seen), steps, frozenset(faults))


def _normal(world: World, protocol: Protocol) -> World:
    """The same world without what cannot matter any more, and with the writers in a fixed order.

    A request for a version that is taken changes nothing unless its writer waits for the answer; one who
    gave up is as good as crashed; which of the writers is called 0, 1 or 2 is the same to all of them.
    """
    if protocol.creates_once:
        alive = tuple(request for request in world.requests if _matters(world, request))
        world = world._replace(requests=alive)
    writers = [_settled(writer) for writer in world.writers]

    def nature(name: int) -> tuple[object, ...]:
        entries = tuple(version for version, owner in enumerate(world.log) if owner == name)
        return writers[name], entries, tuple(request[1:] for request in world.requests if request[0] == name)

    order = sorted(range(len(writers)), key=nature)
    names = {old: new for new, old in enumerate(order)} | {-1: -1}
    return World(
        tuple(names[owner] for owner in world.log),
        tuple(sorted((names[name], version, copies) for name, version, copies in world.requests)),
        tuple(writers[name] for name in order),
        world.fault,
    )


def _matters(world: World, request: tuple[int, int, int]) -> bool:
    name, version, _ = request
    waits = world.writers[name].phase == WAITING and world.writers[name].version == version
    return version >= len(world.log) or waits


def _settled(writer: Writer) -> Writer:
    if writer.phase in (CRASHED, GAVE_UP):
        return Writer(CRASHED)
    return writer._replace(sends=0) if writer.phase == DONE else writer


def _faults(world: World) -> set[str]:
    found = {world.fault} if world.fault else set[str]()
    landed = [owner for owner in world.log if owner >= 0]
    if len(set(landed)) != len(landed):
        found.add("a commit is there twice")
    if -1 in world.log:
        found.add("a version is missing")
    for name, writer in enumerate(world.writers):
        if writer.phase == DONE and (len(world.log) <= writer.version or world.log[writer.version] != name):
            found.add("an acknowledged commit is lost")
    return found


def _steps(world: World, protocol: Protocol) -> Iterator[World]:
    for name, writer in enumerate(world.writers):
        if writer.phase in (READY, WAITING, ASKING):
            yield _with(world, name, writer._replace(phase=CRASHED))
        if writer.phase == READY:
            yield _sent(world, name, writer, protocol)
        elif writer.phase == WAITING:
            yield _with(world, name, writer._replace(phase=ASKING))  # it waits no longer
        elif writer.phase == ASKING:
            yield _asked(world, name, writer, protocol)
    for at, (name, version, copies) in enumerate(world.requests):
        yield _taken(world, at)  # lost on its way
        landed, created = _landed(world, name, version, protocol)
        yield from _answered(_taken(landed, at), name, version, created, protocol)
        if copies == 1:  # and the network keeps a copy, to deliver it once more
            kept = (*landed.requests[:at], (name, version, 2), *landed.requests[at + 1 :])
            yield from _answered(landed._replace(requests=kept), name, version, created, protocol)


def _with(world: World, name: int, writer: Writer) -> World:
    writers = (*world.writers[:name], writer, *world.writers[name + 1 :])
    return world._replace(writers=writers)


def _sent(world: World, name: int, writer: Writer, protocol: Protocol) -> World:
    if writer.sends == protocol.most_sends:
        return _with(world, name, writer._replace(phase=GAVE_UP))
    requests = tuple(sorted({*world.requests, (name, writer.version, 1)}))
    waiting = writer._replace(phase=WAITING, sends=writer.sends + 1)
    return _with(world._replace(requests=requests), name, waiting)


def _asked(world: World, name: int, writer: Writer, protocol: Protocol) -> World:
    """Read the version back: ours, another's, or nothing there."""
    there = len(world.log) > writer.version
    if not there:
        return _with(world, name, writer._replace(phase=READY))
    if world.log[writer.version] == name and protocol.reads_back:
        return _with(world, name, writer._replace(phase=DONE))
    return _beaten(world, name, writer)


def _beaten(world: World, name: int, writer: Writer) -> World:
    """Go on with the next version."""
    fault = "a writer takes its own commit for another's" if world.log[writer.version] == name else ""
    return _with(world._replace(fault=fault), name, Writer(READY, writer.version + 1))


def _taken(world: World, at: int) -> World:
    return world._replace(requests=world.requests[:at] + world.requests[at + 1 :])


def _landed(world: World, name: int, version: int, protocol: Protocol) -> tuple[World, bool]:
    """The store carries a request out; whether it created the object."""
    if version < len(world.log):
        if protocol.creates_once:
            return world, False
        log = (*world.log[:version], name, *world.log[version + 1 :])
        return world._replace(log=log), True
    gap = (-1,) * (version - len(world.log))
    return world._replace(log=(*world.log, *gap, name)), True


def _answered(world: World, name: int, version: int, created: bool, protocol: Protocol) -> Iterator[World]:
    """The answer is lost, or reaches the writer if it still waits for it."""
    yield world
    writer = world.writers[name]
    if writer.phase != WAITING or writer.version != version:
        return
    if created:
        yield _with(world, name, writer._replace(phase=DONE))
    elif protocol.reads_back:
        yield _with(world, name, writer._replace(phase=ASKING))
    else:
        yield _beaten(world, name, writer)
