"""The rendezvous that torchrun's agent of a node is given: the nodes have met before it starts."""

from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]
from torch.distributed.elastic.rendezvous import (
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
    rendezvous_handler_registry,
)

from rlvr_cli.runtime.nodes import Nodes

BACKEND = "rlvr"


class Met(RendezvousHandler):
    """Ends the agent of this node, which asks it several times a second, when another one fails."""

    use_agent_store = True

    def __init__(self, nodes: Nodes, store: Store, run: str) -> None:
        self._nodes, self._store, self._run = nodes, store, run

    def get_backend(self) -> str:
        return BACKEND

    def next_rendezvous(self) -> RendezvousInfo:
        place = RendezvousStoreInfo(self._nodes.reached_at, self._nodes.port)
        store = PrefixStore(self._run, self._store)
        return RendezvousInfo(store, self._nodes.rank, self._nodes.count, place)

    def num_nodes_waiting(self) -> int:
        if self._nodes.failure:
            raise self._nodes.failure
        return 0

    def is_closed(self) -> bool:
        return False

    def set_closed(self) -> None:
        pass

    def get_run_id(self) -> str:
        return self._run

    def shutdown(self) -> bool:
        return True


def _create(parameters: RendezvousParameters) -> RendezvousHandler:
    met: RendezvousHandler = parameters.config["met"]
    return met


rendezvous_handler_registry.register(BACKEND, _create)
