"""Processes more pictures than one machine can: the stages of the engine as tasks of Dask, on one machine or many.

The client lists the source and submits tasks (`run`), worker processes run them (`worker`, `picture`), and the manifest
beside the results has a row for each picture (`manifest`). No picture passes through the scheduler or the client.
README.md describes the design.
"""
