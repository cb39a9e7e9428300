# SPDX-License-Identifier: Apache-2.0

"""Each request is checked as if its schema were looked at anew."""

import jsonschema
from nova.api.openstack.compute.schemas import servers
from nova.api.validation import validators
from nova import exception
from placement.schemas import inventory

from tests import base
from tests.functional import shared

GOOD = {'resource_provider_generation': 1, 'inventories': {}}
BAD = {'resource_provider_generation': 'one', 'inventories': {}}


class PlacementTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        shared.install()

    def read_error(self, body: object) -> str:
        err = self.assertRaises(
            jsonschema.ValidationError,
            jsonschema.validate,
            body,
            inventory.PUT_INVENTORY_SCHEMA,
        )
        return str(err.message)

    def test_a_body_is_checked_each_time(self) -> None:
        for _ in range(2):
            jsonschema.validate(GOOD, inventory.PUT_INVENTORY_SCHEMA)
            self.assertIn("'one'", self.read_error(BAD))
            self.assertIn('required', self.read_error({}))

    def test_a_wrong_schema_is_found_each_time(self) -> None:
        wrong = {'type': 'no type'}

        for _ in range(2):
            self.assertRaises(
                jsonschema.SchemaError, jsonschema.validate, {}, wrong
            )


class NovaTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        shared.install()

    def test_a_schema_has_one_validator(self) -> None:
        made = [
            validators._SchemaValidator(servers.create, False, True)
            for _ in range(2)
        ]

        self.assertIs(*made)

    def test_what_is_to_be_ignored_makes_another(self) -> None:
        """Version 2.0 of the API ignores properties that it does not know."""
        schema = {'type': 'object', 'additionalProperties': False}
        strict = validators._SchemaValidator(schema, False, True)
        relaxed = validators._SchemaValidator(schema, True, True)

        self.assertRaises(
            exception.ValidationError, strict.validate, {'unknown': 1}
        )
        relaxed.validate({'unknown': 1})
