"""A local cluster of `archive` as the scheduler that tests pass to `--scheduler`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from imgproc_local.archive.cluster import local_cluster


@contextmanager
def scheduler_with_tls() -> Iterator[str]:
    """The address of a scheduler with one worker, whose certificates are in the settings of Dask inside the block."""
    import dask

    with local_cluster(1, 0, {}) as (address, security):
        settings = {
            "ca-file": security.tls_ca_file,
            "client.cert": security.tls_client_cert,
            "client.key": security.tls_client_key,
        }
        # for this process, and for those that it starts
        names = {name: name.upper().replace("-", "_").replace(".", "__") for name in settings}
        environment = {f"DASK_DISTRIBUTED__COMM__TLS__{names[name]}": value for name, value in settings.items()}
        with (
            dask.config.set({f"distributed.comm.tls.{name}": value for name, value in settings.items()}),
            mock.patch.dict(os.environ, environment),
        ):
            yield address
