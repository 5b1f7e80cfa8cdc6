"""Call functions of a Tessera bundle with NumPy arrays.

    python3 examples/bundle/call.py classifier.tsb [gpu:0]

Arrays are passed where they lie, with their strides; results are new arrays.
"""
import ctypes
import pathlib
import sys

import numpy as np

AXES = 16
NAMES = ("bool", None, "int8", "int16", "int32", "int64", None, "uint8", "uint16", "uint32", "uint64", None, None, None, None, "float16",
         None, None, "float32", "float64", "complex64", "complex128")


class Array(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("shape", ctypes.c_int64 * AXES), ("stride", ctypes.c_int64 * AXES), ("owner", ctypes.c_void_p)]


class BundleError(Exception):
    """code is a number of tsr_status."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class Bundle:
    """A folder made by `tessera build`; call(name, *arrays) gives the results in a tuple."""

    def __init__(self, folder):
        folder = pathlib.Path(folder)
        self.lib = lib = ctypes.CDLL(str(next(folder.glob("lib*.so")).resolve()))
        lib.tsr_message.restype = ctypes.c_char_p
        lib.tsr_find.restype = ctypes.c_void_p
        lib.tsr_signature.restype = ctypes.c_char_p
        self.bundle = ctypes.c_void_p()
        self.check(lib.tsr_open(str(folder).encode(), ctypes.byref(self.bundle)))

    def close(self):
        self.lib.tsr_close(self.bundle)
        self.bundle = ctypes.c_void_p()

    def use(self, device):
        """Where functions run from now on: "cpu", or "gpu:0" of a bundle that was built with --gpu."""
        self.check(self.lib.tsr_use_device(self.bundle, device.encode()))

    def check(self, code):
        if code:
            raise BundleError(code, self.lib.tsr_message().decode())

    def function(self, name):
        f = ctypes.c_void_p(self.lib.tsr_find(self.bundle, name.encode()))
        if not f:
            self.check(self.lib.tsr_code())
        return f

    def view(self, x):
        """x as the library sees it: no copy unless its strides are no multiples of its elements' size."""
        x = np.asarray(x)
        if any(s % x.itemsize for s in x.strides):
            x = x.copy()
        a = Array(data=x.ctypes.data, dtype=NAMES.index(x.dtype.name), rank=x.ndim)
        a.shape[:x.ndim] = x.shape
        a.stride[:x.ndim] = [s // x.itemsize for s in x.strides]
        return a, x

    def taken(self, a):
        """A result of the library's as an array of our own."""
        shape, dtype = tuple(a.shape[:a.rank]), np.dtype(NAMES[a.dtype])
        count = int(np.prod(shape, dtype=np.int64))
        bytes_ = ctypes.string_at(a.data, count * dtype.itemsize) if count else b""
        self.lib.tsr_release(ctypes.byref(a))
        return np.frombuffer(bytes_, dtype).reshape(shape).copy()

    def call(self, name, *arrays):
        f = self.function(name)
        views = [self.view(x) for x in arrays]
        n, m = len(arrays), self.lib.tsr_outputs(f)
        given, out = (Array * max(n, 1))(*[v[0] for v in views]), (Array * max(m, 1))()
        self.check(self.lib.tsr_call(f, given, n, out, m))
        return tuple(self.taken(out[i]) for i in range(m))

    def weight(self, name):
        a = Array()
        self.check(self.lib.tsr_weight(self.bundle, name.encode(), ctypes.byref(a)))
        return self.taken(a)


def main():
    bundle = Bundle(sys.argv[1])
    if len(sys.argv) > 2:
        bundle.use(sys.argv[2])
    points = np.array([[0, 0], [0.5, 0.5], [1, 1], [-2, 0]], np.float32)
    print(bundle.lib.tsr_signature(bundle.function("predict")).decode())
    print((bundle.call("predict", points)[0] > 0.5).tolist())
    print((bundle.call("predict", points[::-1])[0] > 0.5).tolist())     # strides are below zero here
    try:
        bundle.call("predict", points.T)
    except BundleError as e:
        print(e)


if __name__ == "__main__":
    main()
