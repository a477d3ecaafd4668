"""Job objects of Windows: what ends with this process, and what may not commit more memory.

Written from Microsoft's documentation and never run: labkit is not tested on Windows yet. It must
not do anything on other systems.
"""

from __future__ import annotations

import ctypes
import sys

_JOB_EXTENDED_LIMITS, _JOB_KILL_ON_CLOSE, _JOB_MEMORY = 9, 0x2000, 0x200
_PROCESS_SET_QUOTA_AND_TERMINATE = 0x100 | 0x1


class _JobLimits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION, fields that nobody sets put together.

    The memory fields: limit per process, limit of the job, and the peaks of both.
    """

    _fields_ = (
        ("process_and_job_time", ctypes.c_int64 * 2),
        ("flags", ctypes.c_uint32),
        ("working_set_size", ctypes.c_size_t * 2),
        ("active_processes", ctypes.c_uint32),
        ("affinity", ctypes.c_size_t),
        ("priority_and_scheduling", ctypes.c_uint32 * 2),
        ("io_counters", ctypes.c_uint64 * 6),
        ("memory_limits_and_peaks", ctypes.c_size_t * 4),
    )


def assign_job() -> bool:
    """On Windows, put this process into a job whose processes all end when this one ends.

    Returns:
        Whether the job is in force; False on other systems.
    """
    if sys.platform != "win32":
        return False
    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    kernel.GetCurrentProcess.restype = ctypes.c_void_p
    return _put_into_job(kernel.GetCurrentProcess(), _JobLimits(flags=_JOB_KILL_ON_CLOSE))


def limit_by_job(pid: int, limit_bytes: int) -> bool:
    """On Windows, put a process into a job that cannot commit more memory than this.

    Returns:
        Whether the limit is in force; False on other systems.
    """
    if sys.platform != "win32":
        return False
    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    kernel.OpenProcess.restype = ctypes.c_void_p
    process = kernel.OpenProcess(_PROCESS_SET_QUOTA_AND_TERMINATE, False, pid)
    limits = _JobLimits(flags=_JOB_KILL_ON_CLOSE | _JOB_MEMORY)
    limits.memory_limits_and_peaks[1] = limit_bytes
    return process is not None and _put_into_job(process, limits)


def _put_into_job(process: int, limits: _JobLimits) -> bool:
    if sys.platform != "win32":
        return False
    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    kernel.CreateJobObjectW.restype = ctypes.c_void_p
    # The handle stays open on purpose: the system closes it with this process.
    job = ctypes.c_void_p(kernel.CreateJobObjectW(None, None))
    size = ctypes.sizeof(limits)
    if not kernel.SetInformationJobObject(job, _JOB_EXTENDED_LIMITS, ctypes.byref(limits), size):
        return False
    return bool(kernel.AssignProcessToJobObject(job, ctypes.c_void_p(process)))
