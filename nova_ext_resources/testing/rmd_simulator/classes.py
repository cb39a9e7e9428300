# SPDX-License-Identifier: Apache-2.0

"""RMD's list of classes of service. First in, first out."""


class NoClass(Exception):
    """All classes are in use; RMD's words."""


class StartFailed(Exception):
    """The daemon refuses to start; its words."""


class ClassPool:
    """Which classes are free, in use, and the shared one.

    :ivar free: in the order in which they will be given out
    :ivar shared: '' until a shared workload came
    """

    def __init__(self, clos: int) -> None:
        # COS0 is the OS group's and COS1 the infra group's, used or not.
        self.free = [f'COS{number}' for number in range(2, clos)]
        self.used: list[str] = []
        self.shared = ''

    def take(self) -> str:
        """Return the class that is free for the longest time.

        :raises NoClass: there is none
        """
        if not self.free:
            raise NoClass('No free CLOS available')
        name = self.free.pop(0)
        self.used.append(name)
        return name

    def take_shared(self) -> str:
        """Return the one class of all shared workloads.

        :raises NoClass: there is none yet, and none is free
        """
        if not self.shared:
            try:
                self.shared = self.take()
            except NoClass:
                raise NoClass(
                    'No free CLOS left to create shared group'
                ) from None
        return self.shared

    def give(self, name: str) -> None:
        """Take a class back; one that is not in use is ignored."""
        if name == self.shared:
            self.shared = ''
            self.free.append(name)
        elif name in self.used:
            self.used.remove(name)
            self.free.append(name)

    def mark_used(self, name: str) -> None:
        """Take the class of a workload that is on record at start.

        :raises StartFailed: it is taken already: two records share it
        """
        if name not in self.free:
            raise StartFailed(
                'Problem with CLOS of workload from database: CLOS '
                f'{name} not found on available list'
            )
        self.free.remove(name)
        self.used.append(name)
