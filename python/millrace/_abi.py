"""Made by scripts/python-abi.py from base/err.h, pull/own.h, pull/loader.h, pull/dlpack.h; do not edit."""

from ctypes import (
    POINTER,
    Structure,
    c_bool,
    c_char,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_uint32,
    c_uint64,
    c_uint8,
    c_void_p,
)

MR_OK = 0
MR_AGAIN = 1
MR_END = 2
MR_OPEN = 3
MR_ERR_USAGE = -1
MR_ERR_CONFIG = -2
MR_ERR_SHAPE = -3
MR_ERR_DATA = -4
MR_ERR_IO = -5
MR_ERR_NOMEM = -6
MR_ERR_NORULE = -7
MR_ERR_CANCEL = -8
MR_ERR_UNAVAILABLE = -9


class mr_diag_t(Structure):
    _fields_ = [
        ("code", c_int),
        ("text", c_char * 1024),
    ]


class mr_own_value_t(Structure):
    _fields_ = [
        ("name", c_char * 32),
        ("dtype", c_int32),
        ("ndim", c_int32),
        ("dim", c_int64 * 8),
        ("ragged", c_bool),
        ("data", c_void_p),
    ]


class mr_own_call_t(Structure):
    _fields_ = [
        ("index", c_int64),
        ("seed", c_uint64),
        ("n_input", c_int32),
        ("n_output", c_int32),
        ("input", mr_own_value_t * 16),
        ("output", mr_own_value_t * 16),
    ]


class mr_own_t(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("n", c_int64),
        ("draws", c_bool),
        ("plan", c_void_p),
        ("make", c_void_p),
        ("of", c_void_p),
    ]


class mr_batch_field_t(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("dtype_name", c_char_p),
        ("dtype", c_int32),
        ("ndim", c_int32),
        ("dim", c_int64 * 8),
        ("data", c_void_p),
        ("offset", POINTER(c_int64)),
    ]


class mr_batch_t(Structure):
    _fields_ = [
        ("step", c_int64),
        ("epoch", c_int64),
        ("n", c_int32),
        ("first", c_int32),
        ("ends_epoch", c_bool),
        ("writable", c_bool),
        ("n_fields", c_int32),
        ("field", mr_batch_field_t * 16),
        ("key", POINTER(c_uint64)),
        ("draw", POINTER(c_uint64)),
        ("excluded", POINTER(c_uint8)),
        ("kept", c_int32),
    ]


class mr_loader_settings_t(Structure):
    _fields_ = [
        ("set", POINTER(c_char_p)),
        ("n_set", c_int32),
        ("keep", c_int32),
        ("host", c_int32),
        ("hosts", c_int32),
        ("stage", c_char_p),
        ("state", c_char_p),
        ("plugins", c_bool),
        ("stages", POINTER(c_void_p)),
        ("own", POINTER(mr_own_t)),
        ("n_own", c_int32),
        ("halt", POINTER(c_int)),
    ]


# The calls: what each returns and takes.
CALLS = {
    "mr_err_text": (c_char_p, [c_int]),
    "mr_err_exit": (c_int, [c_int]),
    "mr_notice_to": (None, [c_void_p, c_void_p]),
    "mr_announce_to": (None, [c_void_p, c_void_p]),
    "mr_loader_open": (c_int, [c_char_p, POINTER(mr_loader_settings_t), POINTER(c_void_p), POINTER(mr_diag_t)]),
    "mr_loader_next": (c_int, [c_void_p, POINTER(POINTER(mr_batch_t)), POINTER(mr_diag_t)]),
    "mr_loader_take": (c_int, [c_void_p, c_int, POINTER(POINTER(mr_batch_t)), POINTER(mr_diag_t)]),
    "mr_batch_keep": (POINTER(mr_batch_t), [POINTER(mr_batch_t)]),
    "mr_batch_drop": (None, [POINTER(mr_batch_t)]),
    "mr_batch_copy": (POINTER(mr_batch_t), [POINTER(mr_batch_t)]),
    "mr_loader_kept": (c_int, [c_void_p]),
    "mr_loader_stop": (None, [c_void_p]),
    "mr_loader_seek": (c_int, [c_void_p, c_int64, POINTER(mr_diag_t)]),
    "mr_loader_state": (c_int, [c_void_p, POINTER(c_char_p), POINTER(mr_diag_t)]),
    "mr_loader_step": (c_int64, [c_void_p]),
    "mr_loader_ledger": (c_uint64, [c_void_p]),
    "mr_loader_steps": (c_int64, [c_void_p]),
    "mr_loader_epoch_steps": (c_int64, [c_void_p]),
    "mr_loader_epoch_records": (c_int64, [c_void_p]),
    "mr_loader_spec": (c_void_p, [c_void_p]),
    "mr_loader_describe": (c_int, [c_void_p, c_char_p, POINTER(c_char_p), POINTER(mr_diag_t)]),
    "mr_loader_stages": (c_int, [POINTER(c_char_p), POINTER(mr_diag_t)]),
    "mr_loader_close": (None, [c_void_p]),
    "mr_batch_dlpack": (c_int, [POINTER(mr_batch_t), c_int, c_bool, POINTER(c_void_p), POINTER(mr_diag_t)]),
    "mr_dlpack_capsule_calls": (None, [c_void_p, c_void_p]),
    "mr_dlpack_capsule_end": (None, [c_void_p]),
}
