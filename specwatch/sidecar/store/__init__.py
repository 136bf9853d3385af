"""What outlives the process: one SQLite file, or none.

``database.py`` opens the file and runs work on it, away from the event loop. ``schema.py`` holds the layout, as steps
that are only ever added to. Every consumer has a file of its own here, with its tables and its statements; what it
means is beside the consumer, outside this package.

To add a table: write ``store/<noun>.py`` with its statements, ``TABLES`` first, and functions that take a
``sqlite3.Connection``; append ``TABLES`` to ``schema.STEPS``. Then, where the noun is used::

    await database.write(partial(silences.add, silence))       # one transaction, on disk when this returns
    kept = await database.read(silences.all_of_them)           # one snapshot

Three rules. A consumer keeps what it needs in memory and writes it down besides: ``StoreError`` says that the disk
could not take it (it is logged and counted already), and the service goes on. When ``database.epoch`` has changed,
another database has taken the place of one that was damaged or gone: write everything again. And nothing on the way of
a scrape awaits the database: it leaves its news with a task that does.
"""
