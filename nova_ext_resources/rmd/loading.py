# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Makes clients of RMD from options."""

from oslo_config import cfg

from nova_ext_resources.rmd import client as client_mod
from nova_ext_resources.rmd import tls
from nova_ext_resources.rmd import transport as transport_mod


def from_options(options: cfg.ConfigOpts.GroupAttr) -> client_mod.RmdClient:
    """Make a client from the values of ``[ext_resources_rmd]``.

    :raises InvalidConfiguration: an option cannot be used
    """
    tls.check_url(options.url, options.username)
    tls.check_credentials(options)
    transport = transport_mod.Transport(
        options.url,
        tls.make_session(
            ca_file=options.ca_file,
            cert_file=options.cert_file,
            key_file=options.key_file,
            username=options.username,
            password=options.password,
        ),
        timeout=options.timeout,
        retries=options.retries,
    )
    mode = options.mba_mode
    return client_mod.RmdClient(
        transport,
        num_closids=options.num_closids,
        mba_mode=None if mode == 'none' else mode,
        allow_shared=bool(options.shared_servers),
    )


def from_conf(conf: cfg.ConfigOpts) -> client_mod.RmdClient:
    """Make a client from ``conf``, where the options are registered.

    :raises InvalidConfiguration: an option cannot be used
    """
    return from_options(conf.ext_resources_rmd)
