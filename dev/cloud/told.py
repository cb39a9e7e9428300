# SPDX-License-Identifier: Apache-2.0

"""What a story says, and the error when it is not so."""


class NotAsTold(Exception):
    """A step of the story did not go as the story says.

    :ivar told: what should have been
    :ivar saw: what was there instead
    """

    def __init__(self, told: str, saw: str = '') -> None:
        self.told = told
        self.saw = saw
        super().__init__(f'{told}; saw instead: {saw}' if saw else told)


def expect(is_so: bool, told: str, saw: object = '') -> None:
    """Hold the story to its word.

    :raises NotAsTold: when it is not so
    """
    if not is_so:
        raise NotAsTold(told, str(saw))
