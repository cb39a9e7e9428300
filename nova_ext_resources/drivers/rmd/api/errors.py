# SPDX-License-Identifier: Apache-2.0

"""What the RMD client raises.

::

    RmdError
      + InvalidWorkload
      + RmdUnavailable           (Retriable)
        - RmdTimeout
        - ConnectionDropped
      + OutcomeUnknown
      + MalformedResponse
      + WrongScheme
      + NotPermitted
        - AuthFailed
          - NotTrusted
        - ForeignWorkload
      + WorkloadNotFound
      + RmdRejected
        - WorkloadExists
        - CpusInUse
        - NotEnoughCache
        - NoFreeClos
        - MbaRefused
        - PluginNotLoaded
        - PluginRefused
      + RmdFailed
        - CachesUnreadable
      + InfraGroupPresent
      + NotEnforced

RMD's status codes carry little (whatever fails after its validation is a
500), so :mod:`.response` decides by the text.
"""

from collections.abc import Mapping
from typing import Any

from nova_ext_resources import exception


def escape(text: str) -> str:
    r"""Return text fit for logs: ``\x1b`` in place of an escape byte.

    What a terminal obeys could hide or forge lines of a log.
    """
    return ''.join(
        one if one.isprintable() else one.encode('unicode_escape').decode()
        for one in text
    )


_REJECTED = 'RMD at %(url)s rejected %(action)s: %(reason)s'


class RmdError(exception.ExtResourcesError):
    """A request to an RMD failed.

    :ivar url: the RMD, without credentials
    :ivar action: HTTP method and path, or what was attempted
    :ivar status: HTTP status, None when there was no response
    :ivar reason: RMD's own words, or what was observed
    """

    message = 'RMD at %(url)s, %(action)s: %(reason)s'

    url: str
    action: str
    status: int | None
    reason: str

    def __init__(self, *, status: int | None = None, **data: Any) -> None:
        super().__init__(
            status=status,
            **{
                name: escape(value) if isinstance(value, str) else value
                for name, value in data.items()
            },
        )


class InvalidWorkload(RmdError):
    """A request that RMD would mishandle; it was not sent."""

    message = 'Nothing was sent to RMD at %(url)s, %(action)s: %(reason)s'


class RmdUnavailable(RmdError, exception.Retriable):
    """Nothing listens at the URL, or a proxy reports so.

    :ivar was_sent: whether RMD may have received the request
    """

    message = (
        'RMD at %(url)s is not available, %(action)s: %(reason)s. Start RMD, '
        'or correct [ext_resources_rmd] url. Settings that RMD applied '
        'earlier stay applied.'
    )

    was_sent: bool = False


class RmdTimeout(RmdUnavailable):
    """RMD took longer than the timeout."""

    message = (
        'RMD at %(url)s does not respond, %(action)s: %(reason)s. Restart '
        'RMD, or raise [ext_resources_rmd] timeout if the host is slow.'
    )


class ConnectionDropped(RmdUnavailable):
    """RMD closed the connection without a response.

    RMD does this when it panics over a request, and when it is restarted.
    """

    message = (
        'RMD at %(url)s closed the connection without a response, '
        '%(action)s: %(reason)s. If RMD was not restarted just now, see the '
        'stack trace in its log.'
    )

    was_sent = True


class OutcomeUnknown(RmdError):
    """A change was sent, and RMD did not report whether it took effect.

    :ivar uuid: the workload
    """

    message = (
        'It is unknown whether RMD at %(url)s carried out %(action)s of '
        'workload %(uuid)s: %(reason)s. Delete the workload before the '
        'request is repeated.'
    )

    uuid: str


class MalformedResponse(RmdError):
    """The response is none that RMD sends."""

    message = (
        'Unexpected response from %(url)s, %(action)s (status %(status)s): '
        '%(reason)s. Check that RMD v0.3.1, and no other server, listens on '
        'this URL.'
    )


class WrongScheme(RmdError):
    """The URL says http, and RMD speaks TLS, or the other way round."""

    message = (
        'RMD at %(url)s speaks %(right)s, %(action)s: %(reason)s. Correct '
        '[ext_resources_rmd] url: RMD speaks http in debug mode and https '
        'otherwise, on different ports.'
    )

    def _fill(self, data: Mapping[str, Any]) -> str:
        right = 'http' if data['url'].startswith('https') else 'https'
        return super()._fill({**data, 'right': right})


class NotPermitted(RmdError):
    """RMD knows the client and does not permit the request."""

    message = (
        'RMD at %(url)s does not permit %(action)s: %(reason)s. Add a line '
        'for this identity to RMD\'s acl/url/policy.csv, or use an admin '
        'certificate.'
    )


class AuthFailed(NotPermitted):
    """RMD, or this side, does not accept the other's credentials."""

    message = (
        'RMD at %(url)s: authentication failed, %(action)s: %(reason)s. '
        'Correct username and password, or ca_file, cert_file and key_file of '
        '[ext_resources_rmd].'
    )


class NotTrusted(AuthFailed):
    """The certificate of RMD is not one that this host trusts."""

    message = (
        'RMD at %(url)s is not trusted, so nothing was sent, %(action)s: the '
        'certificate of RMD is refused: %(reason)s. Set [ext_resources_rmd] '
        'ca_file to the certificate of the authority that signed this '
        'certificate, and url to an address in the certificate of RMD.'
    )


class ForeignWorkload(NotPermitted):
    """The workload was made by RMD's own Nova listener, not over REST."""

    message = (
        'RMD at %(url)s left the workload unchanged, %(action)s: %(reason)s. '
        "RMD's own Nova listener created the workload: set openstackenable to "
        'false in rmd.toml. This listener and the enforcer rmd must not run '
        'on the same host.'
    )


class WorkloadNotFound(RmdError):
    """There is no workload with that id."""

    message = 'RMD at %(url)s has no such workload, %(action)s: %(reason)s'


class RmdRejected(RmdError):
    """RMD rejected a request."""

    message = _REJECTED


class WorkloadExists(RmdRejected):
    """There is a workload with that uuid or id.

    :ivar workload_id: RMD's id of it
    """

    message = f'{_REJECTED}. Delete workload %(workload_id)s first.'

    workload_id: str


class CpusInUse(RmdRejected):
    """Some of the CPUs belong to another workload."""

    message = (
        f'{_REJECTED}. Delete the workload that has these CPUs (RMD lists '
        'only those below 32).'
    )


class NotEnoughCache(RmdRejected):
    """No run of free ways is long enough, or the pool is smaller."""

    message = (
        f'{_REJECTED}. The pool has no run of so many free ways: request '
        'fewer ways, or enlarge the pool in rmd.toml.'
    )


class NoFreeClos(RmdRejected):
    """All classes of service are taken."""

    message = (
        f'{_REJECTED}. Every workload takes a class of service, and the '
        'hardware has no free class: delete a workload.'
    )


class MbaRefused(RmdRejected):
    """RMD does not accept this limit of memory bandwidth."""

    message = (
        f'{_REJECTED}. RMD limits memory bandwidth only together with '
        'guaranteed ways, in the unit of [rdt] mbaMode of rmd.toml; set '
        '[ext_resources_rmd] mba_mode to the same unit.'
    )


class PluginNotLoaded(RmdRejected):
    """The workload needs an RMD plugin that is not loaded."""

    message = f'{_REJECTED}. Name the plugin in rmd.toml and restart RMD.'


class PluginRefused(RmdRejected):
    """An RMD plugin does not accept its settings."""

    message = (
        f'{_REJECTED}. The plugin of RMD accepts other values on this host: '
        'correct resource:rmd:* of the flavor.'
    )


class RmdFailed(RmdError):
    """RMD had an error of its own (5xx)."""

    message = (
        'RMD at %(url)s failed, %(action)s (status %(status)s): %(reason)s. '
        'See the log of RMD.'
    )


class CachesUnreadable(RmdFailed):
    """RMD cannot report its caches; it does not report why."""

    message = (
        'RMD at %(url)s cannot report its caches (status %(status)s, '
        '%(reason)s). Usual causes: the policy file is YAML (it must be '
        'TOML), or one of its policies has no cache.max and cache.min.'
    )


class InfraGroupPresent(RmdError):
    """RMD's [InfraGroup] hides how many ways are free."""

    message = (
        'RMD at %(url)s has an [InfraGroup], %(action)s: %(reason)s. Remove '
        '[InfraGroup] from rmd.toml.'
    )


class NotEnforced(RmdError):
    """RMD reported success for a workload that it did not apply.

    :ivar uuid: the workload; it has been deleted again
    """

    message = (
        'RMD at %(url)s accepted workload %(uuid)s but did not enforce it, '
        '%(action)s: %(reason)s'
    )

    uuid: str
