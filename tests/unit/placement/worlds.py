# SPDX-License-Identifier: Apache-2.0


"""Trees to compare, and a placement that is strict about what it is told."""

from collections.abc import Iterable, Mapping
import dataclasses
import uuid

from hypothesis import strategies as st

from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.publish import diff
from tests.unit import strategies

ROOT = str(uuid.UUID(int=0xFF))
OURS = tuple(str(uuid.UUID(int=i)) for i in range(6))
FOREIGN = tuple(str(uuid.UUID(int=0x10 + i)) for i in range(2))
CLASSES = ('CUSTOM_A', 'CUSTOM_B', 'CUSTOM_C')


class World:
    """Refuses what placement would refuse."""

    def __init__(
        self,
        providers: Iterable[host_provider.Provider],
        holders: diff.Holders | None = None,
    ) -> None:
        self.providers = {p.rp_uuid: p for p in providers}
        self._holders = holders or {}

    def apply(self, change: diff.ProviderChange) -> None:
        rp_uuid = change.rp_uuid
        match change:
            case diff.CreateProvider(name=name, parent_uuid=parent_uuid):
                assert rp_uuid not in self.providers
                assert parent_uuid in self.providers
                self.providers[rp_uuid] = host_provider.Provider(
                    rp_uuid=rp_uuid, name=name, parent_uuid=parent_uuid
                )
            case diff.UpdateProvider(name=name, parent_uuid=parent_uuid):
                assert parent_uuid is not None
                assert rp_uuid not in self._list_path(parent_uuid)
                self._replace(rp_uuid, name=name, parent_uuid=parent_uuid)
            case diff.Replace(field='inventories', content=inventories):
                gone = (
                    self.providers[rp_uuid].inventories.keys()
                    - inventories.keys()
                )
                assert not gone & self._holders.get(rp_uuid, {}).keys()
                self._replace(rp_uuid, inventories=inventories)
            case diff.Replace(field=field, content=content):
                self._replace(rp_uuid, **{field: content})
            case diff.DeleteProvider():
                assert not self._holders.get(rp_uuid)
                assert all(
                    p.parent_uuid != rp_uuid for p in self.providers.values()
                )
                del self.providers[rp_uuid]
            case _:
                raise AssertionError(change)

    def _replace(self, rp_uuid: str, **kwargs: object) -> None:
        self.providers[rp_uuid] = dataclasses.replace(
            self.providers[rp_uuid],
            **kwargs,  # type: ignore[arg-type]
        )

    def _list_path(self, rp_uuid: str | None) -> list[str]:
        path = []
        while rp_uuid is not None:
            assert rp_uuid not in path
            path.append(rp_uuid)
            rp_uuid = self.providers[rp_uuid].parent_uuid
        return path


def make_root() -> host_provider.Provider:
    return host_provider.Provider(rp_uuid=ROOT, name='host1')


@st.composite
def trees(
    draw: st.DrawFn, *, is_owned: bool = True
) -> tuple[host_provider.Provider, ...]:
    """Some of OURS in any shape below the root, which is not in it."""
    placed: list[str] = []
    providers = []
    host = draw(st.sampled_from(('host1', 'host2')))
    for rp_uuid in draw(st.lists(st.sampled_from(OURS), unique=True)):
        parent_uuid = draw(st.sampled_from([ROOT, *placed]))
        placed.append(rp_uuid)
        some_traits = st.frozensets(st.sampled_from(('CUSTOM_X', 'HW_Y')))
        traits = draw(some_traits)
        providers.append(
            host_provider.Provider(
                rp_uuid=rp_uuid,
                name=f'{host}_{rp_uuid}',
                parent_uuid=parent_uuid,
                inventories=draw(
                    st.dictionaries(
                        st.sampled_from(CLASSES), strategies.inventories()
                    )
                ),
                traits=traits | {host_provider.OWNER_TRAIT}
                if is_owned
                else traits,
                aggregates=draw(st.frozensets(st.sampled_from(OURS))),
                published_traits=draw(some_traits),
            )
        )
    return tuple(providers)


@st.composite
def foreign_children(
    draw: st.DrawFn, tree: tuple[host_provider.Provider, ...]
) -> tuple[host_provider.Provider, ...]:
    """Some providers of others: below the root, or below ours."""
    parents = [ROOT, *(p.rp_uuid for p in tree)]
    return tuple(
        host_provider.Provider(
            rp_uuid=rp_uuid,
            name=f'foreign_{rp_uuid}',
            parent_uuid=draw(st.sampled_from(parents)),
            inventories=draw(
                st.dictionaries(
                    st.sampled_from(CLASSES), strategies.inventories()
                )
            ),
        )
        for rp_uuid in draw(st.sets(st.sampled_from(FOREIGN)))
    )


@st.composite
def holders_of(
    draw: st.DrawFn, tree: tuple[host_provider.Provider, ...]
) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    """Consumers of some of the inventories of a tree."""
    held = {
        p.rp_uuid: {
            name: ('server',)
            for name in sorted(p.inventories)
            if draw(st.booleans())
        }
        for p in tree
    }
    return {rp_uuid: names for rp_uuid, names in held.items() if names}
