# SPDX-License-Identifier: Apache-2.0

"""Makes clients of RMD from options."""

from oslo_config import cfg

from nova_ext_resources.drivers.rmd.api import client
from nova_ext_resources.drivers.rmd.api import tls
from nova_ext_resources.drivers.rmd.api import transport as transport_mod


def from_options(options: cfg.ConfigOpts.GroupAttr) -> client.RmdClient:
    """Make a client from the values of ``[ext_resources_rmd]``.

    :raises InvalidConfiguration: an option cannot be used
    """
    tls.check_url(options.url, options.username)
    transport = transport_mod.Transport(
        options.url,
        tls.make_session(options),
        timeout=options.timeout,
        retries=options.retries,
    )
    return client.RmdClient(
        transport,
        num_closids=options.num_closids,
        mba_mode=options.mba_mode if options.mba_mode != 'none' else None,
        allow_shared=bool(options.shared_servers),
    )
