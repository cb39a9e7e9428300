# SPDX-License-Identifier: Apache-2.0

"""What readers do with data of others that are damaged.

Whatever the data contain costs their own source only: a reader returns
something, or raises the error that its callers expect.
"""

from collections.abc import Callable
import contextlib
import datetime
import hashlib
import json
import pathlib
import sqlite3
from typing import Any, NamedTuple

import ddt
import fixtures
import hypothesis
from hypothesis import strategies as st
import requests
import yaml

from nova_ext_resources.drivers.devices import device_spec
from nova_ext_resources.drivers.rmd.api import decode
from nova_ext_resources.drivers.rmd.api import errors as rmd_errors
from nova_ext_resources.drivers.rmd.api import response
from nova_ext_resources.drivers.shared_pool import pool_file
from nova_ext_resources.drivers.shared_pool import reading
from nova_ext_resources.drivers.static import definitions
from nova_ext_resources import exception
from nova_ext_resources.host.handover import journal
from nova_ext_resources.host.inventory import config_files
from nova_ext_resources.host.ledger import schema
from nova_ext_resources.objects.documents import foreign_data
from nova_ext_resources.objects.documents import holders
from nova_ext_resources.objects.documents import stats
from nova_ext_resources.placement.api import endpoint
from nova_ext_resources.placement.api import responses
from nova_ext_resources.placement.publish import provider_tree_cache
from nova_ext_resources.reservation import publication
from nova_ext_resources.reservation.store import documents
from tests import base
from tests.unit import builders
from tests.unit.host.ledger import test_ledger
from tests.unit.reservation import hosts
from tests.unit import strategies


NOW = datetime.datetime(2026, 11, 29, tzinfo=datetime.UTC)


class Reader(NamedTuple):
    """A reader of JSON or YAML.

    :ivar read: takes the text, and a folder for it
    :ivar good: what it expects
    :ivar errors: what its callers expect
    """

    read: Callable[[str, pathlib.Path], object]
    good: Any
    errors: tuple[type[Exception], ...] = ()


def read_stats(text: str, _folder: pathlib.Path) -> None:
    stats.decode_totals(text)
    document = stats.decode(text)
    if document is not None:
        stats.make_view(document, builders.make_trackers())


def read_memory(text: str, folder: pathlib.Path) -> object:
    found = provider_tree_cache.Memory(str(folder / 'ledger'))
    checksum = hashlib.sha256(text.encode(errors='replace')).hexdigest()
    pathlib.Path(found.path).write_text(
        f'{checksum}\n{text}', encoding='utf-8', errors='replace'
    )
    return found.read('node')


def read_journal(text: str, folder: pathlib.Path) -> object:
    found = journal.HandoverJournal(str(folder / 'ledger'))
    pathlib.Path(found.path).write_text(
        text, encoding='utf-8', errors='surrogatepass'
    )
    return found.read()


def read_provider_config(text: str, folder: pathlib.Path) -> object:
    (folder / 'a.yaml').write_text(
        text, encoding='utf-8', errors='surrogatepass'
    )
    return config_files.list_named(str(folder), {'host1_STATIC'})


def read_column(table: str, column: str) -> Callable[..., object]:
    """Return what reads a ledger in which a text is in a column."""
    db = sqlite3.connect(':memory:', isolation_level=None)
    db.row_factory = sqlite3.Row
    schema.upgrade(db)
    schema.put(db, test_ledger.make_entry())

    def read(text: str, _folder: pathlib.Path) -> object:
        db.execute(
            f'UPDATE {table} SET {column} = CAST(? AS TEXT)',
            [text.encode(errors='surrogatepass')],
        )
        return schema.read(db)

    return read


def read_rmd(convert: Callable[[Any], object]) -> Callable[..., object]:
    def read(text: str, _folder: pathlib.Path) -> object:
        return response.RmdResponse(
            url='http://rmd', action='GET /', status=200, text=text
        ).read(convert)

    return read


def read_placement(parse: Callable[[Any], object]) -> Callable[..., object]:
    def read(text: str, _folder: pathlib.Path) -> object:
        answer = requests.Response()
        answer.status_code, answer.encoding = 200, 'utf-8'
        answer._content = text.encode(errors='surrogatepass')
        with endpoint.understood('show it', answer):
            return parse(answer.json())

    return read


HELD = {'p': [['r0', 'CUSTOM_X'], ['r1', 'CUSTOM_Y']], 'v': 1}

WORKLOAD = {
    'id': '1',
    'core_ids': ['4', '6'],
    'cos_name': 'COS2',
    'rdt': {'cache': {'max': 2, 'min': 2}, 'mba': {'percentage': 50}},
    'uuid': 'one',
    'plugins': {'pstate': {'ratio': 3.0}},
}

JSON = {
    'stats': Reader(
        read_stats, json.loads(stats.encode(builders.make_view()))
    ),
    'constraints': Reader(
        lambda text, _folder: stats.read_constraints(text),
        {
            'c': {'X': {'a': {'max': 1}, 'n': ['Y'], 'x': ['Z'], 'u': 1}},
            'e': ['rmd'],
            't': ['capacity'],
            'p': 1,
        },
    ),
    'holders': Reader(
        lambda text, _folder: holders.decode(text),
        {**HELD, 's': {'one': {'c': '0-1', 'h': [[0, 2, {'mask': '3'}, 1]]}}},
    ),
    'reserved': Reader(
        lambda text, _folder: holders.decode_reserved(text),
        {**HELD, 'r': [[0, 1, 2, 3], [1, 0, 0, 0]]},
    ),
    'cells': Reader(
        lambda text, _folder: publication.read_cells(text),
        [['0-3', '1-2'], ['4-7', '']],
    ),
    'request': Reader(
        lambda text, _folder: documents.read_request(text),
        json.loads(
            documents.write_request(hosts.make_request('lease', hosts.span(3)))
        ),
        (ValueError,),
    ),
    'pool document': Reader(
        lambda text, _folder: reading.parse_document(
            text.encode(errors='surrogatepass'), 2, NOW
        ),
        {'total': 100, 'free': 40},
        (ValueError,),
    ),
    'ceph': Reader(
        lambda text, _folder: reading.parse_ceph(
            text.encode(errors='surrogatepass'), 'vms', 2, NOW
        ),
        {'pools': [{'name': 'vms', 'stats': {'stored': 9, 'max_avail': 8}}]},
        (ValueError,),
    ),
    'device_spec': Reader(
        lambda text, _folder: device_spec.parse([text]),
        [{'vendor_id': '8086', 'address': {'bus': '3b', 'slot': '0[0-2]'}}],
        (ValueError,),
    ),
    'memory': Reader(
        read_memory,
        {
            'version': provider_tree_cache.VERSION,
            'node': 'node',
            'providers': [
                {
                    'rp_uuid': 'one',
                    'name': 'host1_RDT',
                    'parent_uuid': None,
                    'generation': 3,
                    'inventories': {'CUSTOM_X': {'total': 3}},
                    'traits': ['CUSTOM_A'],
                    'aggregates': [],
                }
            ],
        },
    ),
    'journal': Reader(
        read_journal,
        {'source': 'rmd', 'target': 'resctrl', 'phase': 'done'},
        (exception.LedgerError,),
    ),
    'units in the ledger': Reader(
        read_column('assignment', 'units'),
        {'mask': '3', 'max': 6},
        (sqlite3.Error, *foreign_data.UNREADABLE),
    ),
    'wishes in the ledger': Reader(
        read_column('entry', 'enforcers'),
        {'rmd': {'policy': 'gold'}},
        (sqlite3.Error, *foreign_data.UNREADABLE),
    ),
    **{
        f'rmd {convert.__name__}': Reader(
            read_rmd(convert), good, (rmd_errors.MalformedResponse,)
        )
        for convert, good in (
            (
                decode.caches,
                {
                    'Caches': {
                        '0': {
                            'cache_id': 0,
                            'NumWays': 11,
                            'share_cpu_list': '0-3',
                            'available_ways_pool': {'shared': '1-6'},
                        }
                    }
                },
            ),
            (
                decode.policies,
                {'gold': {'cache': {'max': 4, 'min': 4}, 'mba': {'mbps': 5}}},
            ),
            (
                decode.mba,
                {'mba': True, 'mba_enable': True, 'mba_step': 10},
            ),
            (decode.workload, WORKLOAD),
            (decode.workloads, [WORKLOAD]),
        )
    },
    **{
        f'placement {parse.__name__}': Reader(
            read_placement(parse), good, (exception.PlacementUnavailable,)
        )
        for parse, good in (
            (
                responses.parse_provider,
                {
                    'uuid': 'one',
                    'name': 'host1',
                    'parent_provider_uuid': None,
                    'generation': 3,
                },
            ),
            (responses.parse_inventories, {'CUSTOM_X': {'total': 3}}),
            (responses.parse_holders, {'one': {'resources': {'VCPU': 2}}}),
            (responses.parse_usages, {'VCPU': 2}),
            (
                responses.parse_candidates,
                {
                    'allocation_requests': [
                        {'allocations': {'one': {'resources': {'VCPU': 2}}}}
                    ],
                    'provider_summaries': {
                        'one': {
                            'parent_provider_uuid': None,
                            'traits': [],
                            'resources': {'VCPU': {'capacity': 2, 'used': 1}},
                        }
                    },
                },
            ),
        )
    },
}

INVENTORY = {
    'reserved': 2,
    'min_unit': 1,
    'max_unit': 4,
    'step_size': 1,
    'allocation_ratio': 1.5,
}

YAML = {
    'definitions': Reader(
        lambda text, _folder: definitions.parse(text, 'd.yaml', {'count'}),
        {
            'resources': [
                {
                    'name': 'CUSTOM_SEAT',
                    'type': 'count',
                    'units': 'seats',
                    'description': 'Seats.',
                    'inventory': {'total': 10, **INVENTORY},
                    'traits': ['CUSTOM_A'],
                    'provider': 'SEATS',
                    'nodes': ['0e7b5b0e-4f6c-4a3e-9d0b-0a1b2c3d4e5f'],
                }
            ]
        },
        (ValueError,),
    ),
    'pools': Reader(
        lambda text, _folder: pool_file.parse(text),
        {
            'pools': [
                {
                    'name': 'rack1',
                    'resource_class': 'CUSTOM_RACK1_GB',
                    'source': 'http',
                    'location': 'https://example.org/rack1',
                    'unit_size': 1024,
                    'max_age': 600,
                    'others_use': 'not_free',
                    'min_free_percent': 10,
                    'traits': ['CUSTOM_A'],
                    'inventory': INVENTORY,
                }
            ]
        },
        (ValueError,),
    ),
    'provider.yaml': Reader(
        read_provider_config,
        {
            'providers': [
                {
                    'identification': {'name': 'host1_STATIC'},
                    'inventories': {
                        'additional': [{'CUSTOM_SEAT': {'total': 1}}]
                    },
                }
            ]
        },
    ),
}


@ddt.ddt
class ReadersTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        self.folder = pathlib.Path(self.make_folder())

    def check(self, reader: Reader, texts: st.SearchStrategy[str]) -> None:
        @hypothesis.given(text=texts)
        def check(text: str) -> None:
            with contextlib.suppress(*reader.errors):
                reader.read(text, self.folder)

        check()

    @ddt.data(*JSON)
    def test_no_damaged_json_costs_more_than_its_source(
        self, name: str
    ) -> None:
        reader = JSON[name]

        self.check(reader, strategies.damaged_json(reader.good))

    @ddt.data(*YAML)
    def test_no_damaged_yaml_costs_more_than_its_source(
        self, name: str
    ) -> None:
        reader = YAML[name]

        self.check(reader, strategies.damaged_yaml(reader.good))

    @ddt.data(*JSON, *YAML)
    def test_no_odd_value_costs_more_than_its_source(self, name: str) -> None:
        reader = (JSON | YAML)[name]
        dump = yaml.safe_dump if name in YAML else json.dumps

        for data in strategies.list_damaged(reader.good):
            with contextlib.suppress(*reader.errors):
                reader.read(dump(data), self.folder)

    @ddt.data(*JSON, *YAML)
    def test_what_it_expects_is_read(self, name: str) -> None:
        reader = (JSON | YAML)[name]

        # JSON is YAML.
        reader.read(json.dumps(reader.good), self.folder)
