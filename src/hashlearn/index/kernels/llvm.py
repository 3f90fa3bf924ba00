"""Parts of LLVM code that the vector instructions of the kernels are made of."""

from llvmlite import ir
from numba.core import cgutils

I64, I32, I16, I8 = (ir.IntType(width) for width in (64, 32, 16, 8))


def constant(value):
    return ir.Constant(I64, value)


def call(builder, name, result, args):
    """Call an intrinsic of LLVM."""
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, [a.type for a in args]), name)
    return builder.call(function, args)


def data(context, builder, array_type, array):
    """The address of an array's first element."""
    return context.make_array(array_type)(context, builder, array).data


def all_lanes(register, value):
    """A register with the same constant in all lanes."""
    return ir.Constant(register, [value] * register.count)


def splat(builder, scalar, count):
    """A register with the same number in all lanes."""
    register = ir.VectorType(scalar.type, count)
    one = builder.insert_element(ir.Constant(register, ir.Undefined), scalar, ir.Constant(I32, 0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(I32, count), [0] * count))


def load(builder, place, count):
    """A register of ``count`` numbers from any address in memory."""
    register = ir.VectorType(place.type.pointee, count)
    return builder.load(builder.bitcast(place, register.as_pointer()), align=1)


def binary(builder, name, a, b):
    """An intrinsic of LLVM that works on two registers lane by lane."""
    return call(builder, f"llvm.{name}.v{a.type.count}i{a.type.element.width}", a.type, [a, b])
