# SPDX-License-Identifier: Apache-2.0

"""Makes an adapter of keystoneauth of the options for placement."""

from keystoneauth1 import adapter as ks_adapter
from keystoneauth1 import exceptions as ks_exc
from keystoneauth1 import loading as ks_loading
from oslo_config import cfg

from nova_ext_resources.conf import placement
from nova_ext_resources.conf import values
from nova_ext_resources import exception


def load_adapter(conf: cfg.ConfigOpts) -> ks_adapter.Adapter:
    """Make an adapter of the options of ``[ext_resources_placement]``.

    Where that group names no credentials, Nova's ``[placement]`` group is
    used, with all that it says.

    :param conf: parsed, and not Nova's global one
    :raises InvalidConfiguration: there are no credentials, or they do not
        fit together
    """
    group = placement.GROUP.name
    placement.register_opts(conf)
    if not (conf[group].auth_section or conf[group].auth_type):
        # Never in Nova's own global configuration: Nova has registered that
        # group there with other defaults.
        group = 'placement'
    values.load(conf, cfg.OptGroup(group), placement.OPTS)
    # Again, now that the group is known: auth_type is an option of the
    # section that auth_section names.
    ks_loading.register_auth_conf_options(conf, group)
    return _load_adapter(conf, group)


def _load_adapter(conf: cfg.ConfigOpts, group: str) -> ks_adapter.Adapter:
    try:
        auth = ks_loading.load_auth_from_conf_options(conf, group)
        if auth is not None:
            session = ks_loading.load_session_from_conf_options(
                conf, group, auth=auth
            )
            return ks_loading.load_adapter_from_conf_options(
                conf, group, session=session
            )
    # keystoneauth also refuses with TypeError and ValueError, such as for
    # "version" beside "min_version", or a key without a certificate.
    except (
        ks_exc.ClientException,
        cfg.Error,
        TypeError,
        ValueError,
    ) as err:
        raise exception.InvalidConfiguration(
            option=f'[{group}] auth_type',
            value=conf[group].auth_type,
            reason=f'{str(err).rstrip(".")}. Correct the group [{group}]',
        ) from err
    raise exception.InvalidConfiguration(
        option=f'[{placement.GROUP.name}] auth_type',
        value=None,
        reason='no credentials for placement are set. Set them in this group, '
        'or in [placement], as Nova needs them',
    )
