# SPDX-License-Identifier: Apache-2.0

"""What the API extension asks of the plugin about subscriptions."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from nova_ext_resources.reservation import api
from nova_ext_resources.reservation.blazar import documents
from nova_ext_resources.reservation import errors


class Subscribing:
    """Answers Blazar's API; Blazar finds its methods by their names.

    Each may raise ``InvalidInput`` (400), ``NotFound`` (404) and
    ``CantUpdateParameter`` (409), all of Blazar, in an ``ExpectedException``.
    """

    def _answer(self) -> AbstractContextManager[api.Reservations]:
        raise NotImplementedError

    def create_subscription(
        self,
        document: Mapping[str, Any],
        project: str | None,
        is_all: bool = False,
    ) -> documents.Document:
        """Make a subscription; return it with its secret.

        :param project: of whoever asks
        :param is_all: whether it is an operator's, of all projects
        """
        with self._answer() as reservations:
            if not is_all and not project:
                raise errors.InvalidSubscription(
                    reason='project: the token has no project'
                )
            made = reservations.subscriptions.create(
                document, project='' if is_all else str(project)
            )
            return {
                **documents.describe_subscription(made),
                'url': made.subscription.url,
                'secret': made.subscription.secret,
            }

    def list_subscriptions(
        self, project: str | None = None
    ) -> list[documents.Document]:
        """Return subscriptions.

        :param project: only those of this one; None for all
        """
        with self._answer() as reservations:
            found = reservations.subscriptions.list_subscriptions(
                project=project
            )
            return [*map(documents.describe_subscription, found)]

    def get_subscription(
        self, subscription_id: str, project: str | None = None
    ) -> documents.Document:
        """Return one."""
        with self._answer() as reservations:
            found = reservations.subscriptions.get(
                subscription_id, project=project
            )
            return documents.describe_subscription(found)

    def delete_subscription(
        self, subscription_id: str, project: str | None = None
    ) -> None:
        """Delete one."""
        with self._answer() as reservations:
            reservations.subscriptions.delete(subscription_id, project=project)
