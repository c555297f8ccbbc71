"""Names, types and numbers as they are written in C.

Layer: 7.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from functrace.native.loop_ir import DType

_TYPES: Final = {"f8": "double", "f4": "float", "b1": "bool", "c16": "double", "c8": "float"}

_WORDS: Final = """
    int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t
    auto break case char const continue default do double else enum extern float for goto if
    inline int long register restrict return short signed sizeof static struct switch typedef
    union unsigned void volatile while _Bool _Complex _Imaginary bool true false main NULL
    errno stdin stdout stderr sin cos tan sqrt fabs floor ceil trunc rint copysign fma fmod
    isnan sinf cosf tanf sqrtf fabsf floorf ceilf truncf rintf copysignf fmaf fmodf memcpy
    printf work y0 y1 yn j0 j1 jn and and_eq asm bitand bitor catch class compl delete
    explicit export friend mutable namespace new not not_eq operator or or_eq private
    protected public template this throw try typename using virtual xor xor_eq typeof alignas
    alignof nullptr constexpr INFINITY NAN M_PI I EOF FILE linux unix
"""
_LIMITS: Final = [
    f"{sign}{kind}_{end}"
    for sign in ("", "U")
    for kind in (
        *[f"INT{least}{bits}" for least in ("", "_LEAST", "_FAST") for bits in (8, 16, 32, 64)],
        "INTMAX", "INTPTR", "INT", "LONG", "LLONG", "CHAR", "SHRT",
    )
    for end in ("MIN", "MAX", "C")
]  # fmt: skip
_TYPE_NAMES: Final = [
    f"{sign}int{kind}_t"
    for sign in ("", "u")
    for kind in (
        "max", "ptr",
        *[f"_{least}{bits}" for least in ("least", "fast") for bits in (8, 16, 32, 64)],
    )
]  # fmt: skip
_MACROS: Final = """
    size_t ssize_t ptrdiff_t wchar_t wint_t max_align_t fpos_t PTRDIFF_MIN PTRDIFF_MAX SIZE_MAX
    WCHAR_MIN WCHAR_MAX WINT_MIN WINT_MAX SIG_ATOMIC_MIN SIG_ATOMIC_MAX HUGE_VAL HUGE_VALF HUGE_VALL
    MATH_ERRNO MATH_ERREXCEPT math_errhandling FP_NAN FP_INFINITE FP_ZERO FP_SUBNORMAL FP_NORMAL
    FP_ILOGB0 FP_ILOGBNAN FP_FAST_FMA FP_FAST_FMAF FP_FAST_FMAL BUFSIZ SEEK_SET SEEK_CUR SEEK_END
    FILENAME_MAX FOPEN_MAX TMP_MAX L_tmpnam offsetof signgam MAXFLOAT DBL_MAX DBL_MIN DBL_EPSILON
    FLT_MAX FLT_MIN FLT_EPSILON FLT_RADIX FLT_EVAL_METHOD LDBL_MAX LDBL_MIN LDBL_EPSILON
"""
RESERVED: Final = frozenset([*_WORDS.split(), *_MACROS.split(), *_LIMITS, *_TYPE_NAMES])
"""Words of C, C++ and their libraries that are no names of variables."""

_MATH: Final = """
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs
    fdim floor fma fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 log1p
    log2 logb lrint lround modf nan nearbyint nextafter nexttoward pow remainder remquo rint round
    scalbln scalbn sin sinh sqrt tan tanh tgamma trunc gamma drem significand
"""
_LIBRARY: Final = """
    fpclassify isfinite isgreater isgreaterequal isinf isless islessequal islessgreater isnormal
    isunordered signbit memchr memcmp memmove memset strcat strchr strcmp strcoll strcpy strcspn
    strerror strlen strncat strncmp strncpy strpbrk strrchr strspn strstr strtok strxfrm clearerr
    fclose feof ferror fflush fgetc fgetpos fgets fopen fprintf fputc fputs fread freopen fscanf
    fseek fsetpos ftell fwrite getc getchar gets perror putc putchar puts remove rename rewind scanf
    setbuf setvbuf snprintf sprintf sscanf tmpfile tmpnam ungetc vfprintf vprintf vsprintf index
    rindex malloc free calloc realloc abs div exit abort system rand random time clock signal
    double_t float_t EOF FILE
"""
RESERVED_FUNCTIONS: Final = RESERVED.union(
    _LIBRARY.split(), *[(x, f"{x}f", f"{x}l") for x in _MATH.split()]
)
"""Words that are no names of functions: the headers that are included may declare them."""


def type_name(dtype: DType) -> str:
    """Return the type of a scalar, of an element in memory, or of a part of a complex number."""
    bits = 8 * dtype.itemsize
    return _TYPES.get(dtype.str[1:]) or f"{'u' if dtype.kind == 'u' else ''}int{bits}_t"


def short_name(dtype: DType) -> str:
    """Return a short name of a dtype: ``f64``."""
    return f"{dtype.kind}{8 * dtype.itemsize}"


def number_text(value: complex, dtype: DType) -> str:
    """Return the text of a real number: exactly the number of the dtype."""
    if dtype.kind == "b":
        return "true" if value else "false"
    number = dtype.type(value)
    if dtype.kind != "f":
        return _integer_text(int(number), dtype)
    if not np.isfinite(number):
        return "NAN" if np.isnan(number) else "INFINITY" if number > 0 else "-INFINITY"
    text = repr(number.item()) if dtype.itemsize == 8 else str(number)
    text = text if any(c in text for c in ".e") else f"{text}.0"
    return text if dtype.itemsize == 8 else f"{text}f"


def _integer_text(number: int, dtype: DType) -> str:
    suffix = "u" if dtype.kind == "u" else ""
    if dtype.itemsize == 8:
        suffix += "LL" if suffix or not -(2**31) < number < 2**31 else ""
    if dtype.kind == "i" and number == -(2 ** (8 * dtype.itemsize - 1)):
        return f"INT{8 * dtype.itemsize}_MIN"
    size = abs(number)
    is_pattern = size >= 1 << 20 and (size % (1 << 16) == 0 or size & (size + 1) == 0)
    return f"{'-' if number < 0 else ''}{hex(size) if is_pattern else size}{suffix.upper()}"


def kernel_name(op: str, dtype: DType) -> str:
    """Return the name of the function of a kernel."""
    return f"ft_{op}" + ("f" if dtype.itemsize == 4 else "")
