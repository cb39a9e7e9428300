# SPDX-License-Identifier: Apache-2.0

"""Makes the resources of a host as its options say."""

from collections.abc import Callable

from oslo_config import cfg

from nova_ext_resources.host.handover import journal
from nova_ext_resources.host.ledger import ledger as ledger_mod
from nova_ext_resources.host import manager
from nova_ext_resources.host.reconcile import running_guests
from nova_ext_resources.objects import host_provider
from nova_ext_resources import plugins


def load_host(
    conf: cfg.ConfigOpts,
    *,
    host: str,
    node: host_provider.Node,
    ledger_path: str,
    list_guests: Callable[[], running_guests.Guests | None],
) -> manager.HostManager:
    """Load all plugins, then open the ledger.

    :param conf: parsed; plugins add their options to it
    :param list_guests: see :meth:`.GuestList.read`
    :raises ExtResourcesError: something named in the options cannot be
        used; nothing is open
    """
    options = conf.ext_resources
    trackers = plugins.load_trackers()
    tests = plugins.load_claim_tests(trackers, options.claim_tests)
    providers, enforcers = plugins.load_for_host(
        conf,
        host,
        lambda: made.entries,
        options.inventory_providers,
        options.enforcers,
        guests=list_guests,
    )
    ledger = ledger_mod.Ledger(ledger_path)
    try:
        journal.check_none(ledger_path, list_enabled(conf))
        made = manager.HostManager(
            host=host,
            node=node,
            providers=providers,
            trackers=trackers,
            tests=tests,
            enforcers=enforcers,
            ledger=ledger,
            spreads_pins=options.pins_across_caches == 'each',
            list_guests=list_guests,
        )
    except BaseException:
        ledger.close()
        raise
    return made


def list_enabled(conf: cfg.ConfigOpts) -> frozenset[str]:
    """Return the names of the inventory providers and enforcers."""
    options = conf.ext_resources
    return frozenset({*options.inventory_providers, *options.enforcers})
