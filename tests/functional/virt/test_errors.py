# SPDX-License-Identifier: Apache-2.0

"""Which of Nova's errors stands for which of ours."""

from collections.abc import Iterator
import logging
import re

import fixtures
from nova import exception as nova_exc
from nova import objects

from nova_ext_resources.drivers.rmd.api import errors as rmd_errors
from nova_ext_resources import exception
from nova_ext_resources.facts import operation
from nova_ext_resources.virt.driver import errors
from tests import base
from tests.unit.host import with_resctrl

Operation = operation.Operation

SERVER = '11111111-1111-4111-8111-111111111111'
PROVIDER = '22222222-2222-4222-8222-222222222222'

HOST = 'compute-12'

#: What Nova keeps of a message in the events and faults of a server.
_KEPT = 255


def make_instance() -> objects.Instance:
    return objects.Instance(uuid=SERVER, display_name='web-1')


def make_refusal() -> exception.ConstraintsViolated:
    return exception.ConstraintsViolated(
        host=HOST,
        consumer_uuid=SERVER,
        shortfalls=[
            exception.Shortfall(
                rp_uuid=PROVIDER,
                rp_key='L3_0',
                resource_class='CUSTOM_LLC_WAYS',
                requested=4,
                available=0,
                reason='the CPUs of the server float over the host; set '
                'hw:cpu_policy=dedicated on the flavor',
                is_permanent=True,
            ),
            exception.Shortfall(
                rp_uuid=PROVIDER,
                resource_class='CUSTOM_RDT_CLOS',
                requested=1,
                available=0,
                reason='servers of this host hold 6 units; the host itself '
                'or other software uses the rest',
            ),
        ],
    )


def make_placement_error(cls: type[exception.PlacementError]) -> Exception:
    return cls(action='move allocations', status=409, detail='taken')


def named(err: Exception) -> str:
    """Return what a tenant reads of an error."""
    text = str(err).replace(SERVER, 'web-1').replace('Ledger x', 'Ledger')
    return text.replace(f'Host {HOST}', 'This host')


class TranslationTestCase(base.TestCase):
    def translate(
        self, err: Exception, instance: objects.Instance | None = None
    ) -> Exception:
        def fail() -> None:
            with errors.translated(instance or make_instance(), HOST):
                raise err

        translated: Exception = self.assertRaises(nova_exc.NovaException, fail)
        return translated


class TranslatedTest(TranslationTestCase):
    def test_what_is_called_by_the_uuid_keeps_its_name(self) -> None:
        err = self.translate(
            exception.EnforcementFailed(
                host=HOST,
                enforcer='resctrl',
                consumer_uuid=SERVER,
                reason=f'could not set nova-{SERVER}/schemata',
            )
        )

        self.assertIn(f'nova-{SERVER}/schemata', str(err))
        self.assertIn('(server web-1)', str(err))

    def test_a_long_name_does_not_push_the_reason_out(self) -> None:
        instance = objects.Instance(uuid=SERVER, display_name='a' * _KEPT)
        err = self.translate(make_refusal(), instance)

        self.assertIn(f'server {SERVER}', str(err))

    def test_a_host_that_is_busy_has_not_failed(self) -> None:
        for err in (
            exception.CapacityExceeded(
                host=HOST, consumer_uuid=SERVER, shortfalls=()
            ),
            make_placement_error(exception.AllocationRejected),
            make_placement_error(exception.ConcurrentUpdate),
        ):
            with self.subTest(type(err).__name__):
                translated = self.translate(err)

                self.assertIsInstance(translated, errors.HostRefused)
                self.assertIn(named(err), str(translated))

    def test_nova_keeps_reason_and_remedy_of_a_refusal(self) -> None:
        kept = str(self.translate(make_refusal()))[:_KEPT]

        self.assertIn('This host can never serve', kept)
        self.assertIn('CUSTOM_LLC_WAYS of L3_0: 4 requested', kept)
        self.assertIn('set hw:cpu_policy=dedicated on the flavor', kept)
        self.assertNotIn('4 requested, 0 available', kept)

    def test_nova_keeps_reason_and_remedy_of_a_failure(self) -> None:
        err = exception.EnforcementFailed(
            host=HOST,
            enforcer='resctrl',
            consumer_uuid=SERVER,
            reason='/sys/fs/resctrl is not mounted on this host any more, or '
            'was mounted anew without the options that it had; mount it, as '
            'in "mount -t resctrl resctrl /sys/fs/resctrl"',
        )

        kept = str(self.translate(err))[:_KEPT]

        self.assertIn('mount -t resctrl resctrl /sys/fs/resctrl', kept)

    def test_nova_keeps_the_remedy_of_a_backend_that_is_away(self) -> None:
        url = 'https://rmd.internal.example.org:8443'
        away = rmd_errors.RmdUnavailable(
            url=url,
            action='GET /v1/workloads',
            reason="HTTPSConnection(host='rmd.internal.example.org', "
            'port=8443): Failed to establish a new connection: [Errno 111] '
            'Connection refused',
        )
        err = exception.EnforcementFailed(
            host=HOST, enforcer='rmd', consumer_uuid=SERVER, reason=str(away)
        )
        log = self.useFixture(fixtures.FakeLogger(level=logging.WARNING))

        text = str(self.translate(err))

        self.assertIn('RMD is not available: Failed', text)
        self.assertIn('Start RMD, or correct', text[:_KEPT])
        self.assertNotIn('example.org', text)
        self.assertIn(url, log.output)

    def test_nova_keeps_the_remedy_of_a_ledger(self) -> None:
        path = f'/var/lib/nova/{"a" * _KEPT}/ledger.sqlite'

        text = str(
            self.translate(
                exception.LedgerError(
                    path=path, reason='is full. Make room on its disk.'
                )
            )
        )

        self.assertIn('Ledger: is full. Make room', text[:_KEPT])

    def test_other_addresses_are_in_the_log_only(self) -> None:
        for said, shown in (
            (
                'RMD at http://127.0.0.1:8081 rejected POST /v1/workloads: no',
                'RMD rejected POST /v1/workloads: no',
            ),
            ('see http://127.0.0.1:8081/a, please', 'see (url), please'),
            ('RMD at http://[::1]:8081: no', 'RMD: no'),
        ):
            with self.subTest(said):
                err = exception.EnforcementFailed(
                    host=HOST, enforcer='rmd', consumer_uuid='', reason=said
                )

                self.assertIn(f'failed: {shown}', str(self.translate(err)))

    def test_the_server_has_its_name(self) -> None:
        translated = str(self.translate(make_refusal()))

        self.assertIn('(server web-1)', translated)
        self.assertNotIn(SERVER, translated)

    def test_all_of_it_is_logged(self) -> None:
        log = self.useFixture(fixtures.FakeLogger(level=logging.WARNING))

        translated = self.translate(make_refusal())

        self.assertLess(_KEPT, len(str(translated)))
        text = str(translated).replace('This host', f'Host {HOST}')
        text = text.replace('(uuid)', PROVIDER)
        self.assertIn(text, log.output)

    def test_one_that_cannot_write_or_ask_has(self) -> None:
        for err in (
            exception.LedgerError(path='x', reason='the disk is full'),
            make_placement_error(exception.PlacementUnavailable),
        ):
            with self.subTest(type(err).__name__):
                translated = self.translate(err)

                self.assertIsInstance(
                    translated, nova_exc.ComputeResourcesUnavailable
                )
                self.assertIn(named(err), str(translated))

    def test_a_sentence_ends_once(self) -> None:
        err = exception.LedgerError(path='x', reason='it is full. Mend it.')

        translated = self.translate(err)

        self.assertTrue(str(translated).endswith('full. Mend it.'))

    def test_the_log_has_the_host_once_and_a_tenant_does_not_see_it(
        self,
    ) -> None:
        for err, words in (
            (
                exception.LedgerError(path='x', reason='it is full'),
                'This host: Ledger: it is full',
            ),
            (
                exception.CapacityExceeded(
                    host=HOST, consumer_uuid=SERVER, shortfalls=()
                ),
                'This host cannot now serve',
            ),
            (
                exception.EnforcementFailed(
                    host=HOST,
                    enforcer='rmd',
                    consumer_uuid=SERVER,
                    reason='compute-120 of x-compute-12 is not asked',
                ),
                'Enforcer rmd on this host failed: compute-120 of '
                'x-compute-12 is not asked',
            ),
            (
                exception.EnforcementFailed(
                    host=HOST,
                    enforcer='rmd',
                    consumer_uuid=SERVER,
                    reason=f'https://{HOST}.example.org:8443 is off',
                ),
                'failed: (url) is off',
            ),
            (
                exception.LedgerError(path=f'/l/{HOST}.sqlite', reason='full'),
                'This host: Ledger: full',
            ),
            (
                exception.InvalidExtraSpec(key='a', value='b', reason=HOST),
                '(host)',
            ),
        ):
            with self.subTest(words):
                log = self.useFixture(fixtures.FakeLogger())

                text = str(self.translate(err))

                self.assertIn(words, text)
                self.assertEqual(1, log.output.count(f'ost {HOST}'))

    def test_what_is_not_ours_is_left_as_it_is(self) -> None:
        err = nova_exc.InstanceNotFound(instance_id=SERVER)

        self.assertIs(err, self.translate(err))


def list_errors(
    cls: type[exception.ExtResourcesError],
) -> Iterator[type[exception.ExtResourcesError]]:
    for one in cls.__subclasses__():
        yield one
        yield from list_errors(one)


class OthersTest(TranslationTestCase):
    """The owner of a server reads no names that belong to others."""

    DEVICE = '0000:3b:02.1'
    NAMES = (PROVIDER, DEVICE, 'lsv-db', 'k8s pod')
    TEXT = (
        f'nova-{PROVIDER} and server {PROVIDER} have {DEVICE}, VF_{DEVICE}; '
        'busy (control groups: lsv-db, k8s pod): none; CPUs are in the '
        'control group k8s pod, which stays; the control group lsv-db may '
        'fill it; 2 threads are in the control group k8s pod and get its '
        'ways; resctrl: could not read k8s pod/schemata: EIO'
    )

    def make(self, cls: type[exception.ExtResourcesError]) -> Exception:
        """Make an error of which each fact has names of others."""
        if issubclass(cls, exception.PlacementError):
            return cls(action=self.TEXT, detail=self.TEXT)
        if issubclass(cls, exception.ClaimError):
            short = exception.Shortfall(
                rp_uuid=PROVIDER,
                rp_key=f'VF_{self.DEVICE}',
                resource_class='SRIOV_NET_VF',
                requested=1,
                available=0,
                reason=self.TEXT,
            )
            return cls(host=HOST, consumer_uuid=SERVER, shortfalls=[short])
        keys = ('reason', 'host', 'enforcer', 'consumer_uuid', 'value')
        kinds = dict.fromkeys(keys, 's') | dict(
            re.findall(r'%\((\w+)\)(\w)', cls.message)
        )
        return cls(
            **{
                key: 1 if kind == 'd' else self.TEXT
                for key, kind in kinds.items()
            }
        )

    def assert_hidden(self, err: Exception, *names: str) -> None:
        log = self.useFixture(fixtures.FakeLogger(level=logging.WARNING))
        text = str(self.translate(err))
        for name in names:
            self.assertNotIn(name, text)
        for name in names:
            if name in str(err):
                self.assertIn(name, log.output)

    def test_of_all_errors(self) -> None:
        found = [*list_errors(exception.ExtResourcesError)]
        self.assertLess(30, len(found))
        for cls in found:
            with self.subTest(cls.__name__):
                self.assert_hidden(self.make(cls), *self.NAMES)

    def test_of_those_that_nobody_expects(self) -> None:
        def fail() -> None:
            with errors.refusing_move(make_instance(), HOST):
                raise KeyError(self.TEXT)

        err = self.assertRaises(nova_exc.InstanceFaultRollback, fail)
        for name in self.NAMES:
            self.assertNotIn(name, str(err.inner_exception))

    def test_a_request_can_be_found_in_the_logs(self) -> None:
        err = exception.PlacementRefused(
            action='x', detail='y', request_id=f'req-{PROVIDER}'
        )

        self.assertIn(f'req-{PROVIDER}', str(self.translate(err)))


class KernelTest(with_resctrl.ResctrlHostTestCase):
    """Each file operation of a start fails, beside groups of others."""

    def find_failure(self, error: str, skip: int) -> Exception | None:
        """Return how a start fails; None: it has so few operations."""
        self.kernel.fail(error=error, skip=skip, count=None)
        try:
            self.start(self.host, SERVER, 4)
        except exception.ExtResourcesError as err:
            return err
        finally:
            self.kernel.stop_failing()
            self.host.release(SERVER)
        return None

    def test_no_group_of_others_is_named(self) -> None:
        self.host = self.make_resctrl_host()
        self.kernel.add_group('lsv-db', 'L3:0=400;1=400\n')
        self.kernel.add_group(f'nova-{PROVIDER}', 'L3:0=200;1=400\n')
        seen = 0
        for error in ('EIO', 'ENOSPC', 'EBUSY', 'ENOENT'):
            for skip in range(200):
                err = self.find_failure(error, skip)
                if err is None:
                    break
                text = errors._hide_others(str(err), HOST, make_instance())
                seen += 'lsv-db' in str(err)
                self.assertNotIn('lsv-db', text)
                self.assertNotIn(PROVIDER, text)
        self.assertLess(0, seen)


class RebuildTest(base.TestCase):
    def rebuild(self, reason: operation.Operation) -> None:
        with errors.rebuild_shown(reason, SERVER):
            raise nova_exc.ComputeResourcesUnavailable(reason='no ways')

    def test_one_in_place_that_fails_is_shown(self) -> None:
        err = self.assertRaises(
            nova_exc.BuildAbortException, self.rebuild, Operation.REBUILD
        )

        self.assertIn('no ways', str(err))

    def test_other_builds_that_fail_are_as_they_were(self) -> None:
        for reason in set(Operation) - {Operation.REBUILD}:
            with self.subTest(reason=reason):
                self.assertRaises(
                    nova_exc.ComputeResourcesUnavailable, self.rebuild, reason
                )
