"""Processes more pictures than one machine can: the stages of the engine as tasks of Dask, on one machine or many.

The client lists the source and submits tasks (`client`), a worker process runs them (`worker`, `picture`), and what
became of each picture is in the manifest beside the results (`manifest`). No picture passes through the client or the
scheduler. README.md describes it.
"""
