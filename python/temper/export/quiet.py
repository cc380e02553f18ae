# SPDX-License-Identifier: Apache-2.0
"""The frameworks' chatter, kept off the terminal: their C++ parts write to the file descriptors themselves."""
import contextlib
import logging
import os
import sys
import tempfile
import warnings

loud = False  # --verbose


@contextlib.contextmanager
def quiet():
    if loud:
        yield
        return
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    level = logging.root.manager.disable
    with tempfile.TemporaryFile() as sink, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        os.dup2(sink.fileno(), 1)
        os.dup2(sink.fileno(), 2)
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for descriptor, target in zip(kept, (1, 2)):
                os.dup2(descriptor, target)
                os.close(descriptor)
            logging.disable(level)
