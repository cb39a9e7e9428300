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

"""What the RMD client raises.

::

    RmdError
      + InvalidWorkload
      + RmdUnavailable           (Retriable)
        - RmdTimeout
        - ConnectionDropped
      + OutcomeUnknown
      + MalformedAnswer
      + NotPermitted
        - AuthFailed
        - ForeignWorkload
      + WorkloadNotFound
      + RmdRejected
        - WorkloadExists
        - CpusInUse
        - TasksInUse
        - NotEnoughCache
        - NoFreeClos
        - MbaRefused
        - PluginNotLoaded
        - PluginRefused
      + RmdFailed
        - CachesUnreadable
      + InfraGroupPresent
      + NotEnforced

RMD's status codes say little (whatever happens after its validation is a
500), so answers are told apart by their text, in :mod:`.answers`.
"""

from nova_ext_resources import exception


class RmdError(exception.ExtResourcesError):
    """Something went wrong with an RMD.

    :ivar url: what was asked, without credentials
    :ivar action: HTTP method, or what was tried
    :ivar status: HTTP status, None when there was no answer
    :ivar reason: RMD's own words, or what was seen
    """

    message = 'RMD at %(url)s, %(action)s: %(reason)s'

    url: str
    action: str
    status: int | None
    reason: str

    def __init__(
        self,
        *,
        url: str,
        action: str,
        reason: str,
        status: int | None = None,
        **data: object,
    ) -> None:
        super().__init__(
            url=url, action=action, reason=reason, status=status, **data
        )


class InvalidWorkload(RmdError):
    """A request that RMD would mishandle; it was not sent."""

    message = 'Nothing was sent to RMD at %(url)s, %(action)s: %(reason)s'


class RmdUnavailable(RmdError, exception.Retriable):
    """Nobody answers at the URL, or a proxy says so.

    :ivar was_sent: whether RMD may have got the request
    """

    message = (
        'RMD at %(url)s is not available, %(action)s: %(reason)s. Start it, '
        'or correct [ext_resources_rmd] url; what it enforced before stays '
        'in force.'
    )

    was_sent: bool

    def __init__(
        self,
        *,
        url: str,
        action: str,
        reason: str,
        status: int | None = None,
        was_sent: bool | None = None,
    ) -> None:
        super().__init__(
            url=url,
            action=action,
            reason=reason,
            status=status,
            # A proxy that answers may have passed the request on.
            was_sent=status is not None if was_sent is None else was_sent,
        )


class RmdTimeout(RmdUnavailable):
    """RMD took longer than the timeout."""

    message = (
        'RMD at %(url)s hangs, %(action)s: %(reason)s. Restart it, or raise '
        '[ext_resources_rmd] timeout if the host is that slow.'
    )


class ConnectionDropped(RmdUnavailable):
    """RMD closed the connection without an answer.

    RMD does this when it panics over a request, and when it is restarted.
    """

    message = (
        'RMD at %(url)s closed the connection without an answer, '
        '%(action)s: %(reason)s. Its log has the stack trace if it was not '
        'just restarted.'
    )


class OutcomeUnknown(RmdError):
    """A change was sent, and it cannot be told whether it took effect.

    :ivar uuid: the workload
    """

    message = (
        'It is unknown whether RMD at %(url)s did the %(action)s of workload '
        '%(uuid)s: %(reason)s. Delete the workload before it is tried '
        'again.'
    )

    uuid: str


class MalformedAnswer(RmdError):
    """The answer is none that RMD gives."""

    message = (
        'RMD at %(url)s gave an answer that makes no sense, %(action)s '
        '(status %(status)s): %(reason)s. Check that RMD v0.3.1 listens '
        'there and nothing else.'
    )


class NotPermitted(RmdError):
    """RMD knows who asks and refuses.

    :ivar hint: what to change where
    """

    message = 'RMD at %(url)s does not permit %(action)s: %(reason)s. %(hint)s'

    def __init__(
        self,
        *,
        url: str,
        action: str,
        reason: str,
        status: int | None = None,
        hint: str = (
            'Add a line for this identity to RMD\'s acl/url/policy.csv, or '
            'use an admin certificate.'
        ),
    ) -> None:
        super().__init__(
            url=url, action=action, reason=reason, status=status, hint=hint
        )


class AuthFailed(NotPermitted):
    """RMD does not accept who asks: no or wrong credentials."""

    message = (
        'RMD at %(url)s does not accept the credentials, %(action)s: '
        '%(reason)s. Correct username and password, or ca_file, cert_file '
        'and key_file of [ext_resources_rmd].'
    )


class ForeignWorkload(NotPermitted):
    """The workload was made by RMD's own Nova listener, not over REST."""

    message = (
        'RMD at %(url)s left the workload as it is, %(action)s: %(reason)s. '
        'It was made by RMD\'s own Nova listener: switch openstackenable '
        'off in rmd.toml, the two must not run on one host.'
    )


class WorkloadNotFound(RmdError):
    """There is no workload with that id."""

    message = 'RMD at %(url)s has no such workload, %(action)s: %(reason)s'


class RmdRejected(RmdError):
    """RMD refuses a request."""

    message = 'RMD at %(url)s refuses %(action)s: %(reason)s'


class WorkloadExists(RmdRejected):
    """There is a workload with that uuid or id.

    :ivar workload_id: RMD's id of it, '' when RMD does not say
    """

    message = (
        'RMD at %(url)s refuses %(action)s: %(reason)s. Delete workload '
        '%(workload_id)s first.'
    )

    workload_id: str


class CpusInUse(RmdRejected):
    """Some of the CPUs belong to another workload.

    :ivar cpus: which, as far as RMD tells: it leaves out those above 31
    """

    message = (
        'RMD at %(url)s refuses %(action)s: %(reason)s. Delete the workload '
        'that has these CPUs (RMD names only those below 32).'
    )

    cpus: frozenset[int]


class TasksInUse(RmdRejected):
    """A task belongs to another workload.

    :ivar workload_id: RMD's id of that workload
    """

    message = (
        'RMD at %(url)s refuses %(action)s: %(reason)s. Delete workload '
        '%(workload_id)s first.'
    )

    workload_id: str


class NotEnoughCache(RmdRejected):
    """No free run of ways is long enough, or the pool is smaller.

    :ivar cache_id: where it failed first
    """

    message = (
        'RMD at %(url)s refuses %(action)s: %(reason)s. Its pool has no free '
        'run of that many ways: ask for less, or enlarge the pool in '
        'rmd.toml.'
    )

    cache_id: int


class NoFreeClos(RmdRejected):
    """All classes of service are taken."""

    message = (
        'RMD at %(url)s refuses %(action)s: %(reason)s. Every workload takes '
        'a class of service, the hardware has no more: delete a workload.'
    )


class MbaRefused(RmdRejected):
    """The memory bandwidth limit cannot be given like this."""

    message = (
        'RMD at %(url)s refuses %(action)s: %(reason)s. Memory bandwidth '
        'goes with guaranteed ways only, in the unit of [rdt] mbaMode of '
        'rmd.toml; say the same in [ext_resources_rmd] mba_mode.'
    )


class PluginNotLoaded(RmdRejected):
    """The workload needs an RMD plugin that is not loaded."""

    message = (
        'RMD at %(url)s refuses %(action)s: %(reason)s. Name the plugin in '
        'rmd.toml and restart RMD.'
    )


class PluginRefused(RmdRejected):
    """An RMD plugin does not take its settings."""

    message = (
        'RMD at %(url)s refuses %(action)s: %(reason)s. Its plugin takes '
        'other values on this host: correct resource:rmd:* of the flavor.'
    )


class RmdFailed(RmdError):
    """RMD had an error of its own (5xx)."""

    message = (
        'RMD at %(url)s failed, %(action)s (status %(status)s): %(reason)s. '
        'Its log tells more.'
    )


class CachesUnreadable(RmdFailed):
    """RMD cannot report its caches; it does not say why."""

    message = (
        'RMD at %(url)s cannot report its caches (status %(status)s, '
        '%(reason)s). Usual causes: the policy file is YAML (it must be '
        'TOML), or one of its policies has no cache.max and cache.min.'
    )


class InfraGroupPresent(RmdError):
    """RMD's [InfraGroup] hides how many ways are free."""

    message = (
        'RMD at %(url)s has an [InfraGroup], %(action)s: %(reason)s. Take '
        '[InfraGroup] out of rmd.toml.'
    )


class NotEnforced(RmdError):
    """RMD said that a workload is in force, and it is not.

    :ivar uuid: the workload; it has been deleted again
    """

    message = (
        'RMD at %(url)s accepted workload %(uuid)s but did not enforce it, '
        '%(action)s: %(reason)s'
    )

    uuid: str
