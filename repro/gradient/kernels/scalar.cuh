// The element type of x, dy and dW, chosen by a -D option; all sums are in float.
//
//   (none)         float
//   SCALAR_HALF    float16,  read and written as its 16 bits
//   SCALAR_BFLOAT  bfloat16, read and written as its 16 bits
//
// The conversions are written out in integers, so that no header of the CUDA toolkit is needed and the same text
// is compiled and tested by a C++ compiler on a machine without GPU.

typedef long long index_t;

#if defined(SCALAR_HALF) || defined(SCALAR_BFLOAT)
typedef unsigned short scalar_t;
#else
typedef float scalar_t;
#endif

__device__ __forceinline__ float to_float(scalar_t value) {
#if defined(SCALAR_HALF)
    // The exponent's bias is 15 in half and 127 in float: shift the bits in place, then multiply by 2^112. This is
    // right for subnormal numbers too. Infinity and NaN have the largest exponent in both types.
    const unsigned magnitude = (value & 0x7fffu) << 13;
    float result = __uint_as_float(magnitude) * 5.192296858534828e33f;
    if (magnitude >= 0x0f800000u) result = __uint_as_float(magnitude | 0x7f800000u);
    return __uint_as_float(__float_as_uint(result) | ((value & 0x8000u) << 16));
#elif defined(SCALAR_BFLOAT)
    return __uint_as_float(static_cast<unsigned>(value) << 16);
#else
    return value;
#endif
}

// Rounds to nearest, ties to even.
__device__ __forceinline__ scalar_t from_float(float value) {
#if defined(SCALAR_HALF)
    const unsigned bits = __float_as_uint(value), magnitude = bits & 0x7fffffffu;
    const unsigned sign = (bits >> 16) & 0x8000u;
    unsigned half;
    if (magnitude > 0x7f800000u) {
        half = 0x7e00u;  // NaN
    } else if (magnitude >= 0x477ff000u) {
        half = 0x7c00u;  // 65520 and above round to infinity
    } else if (magnitude >= 0x38800000u) {
        half = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    } else {
        // Subnormal: adding 0.5 leaves the number's multiple of 2^-24 in the last bits, rounded by the addition.
        half = __float_as_uint(__uint_as_float(magnitude) + 0.5f) - 0x3f000000u;
    }
    return static_cast<scalar_t>(half | sign);
#elif defined(SCALAR_BFLOAT)
    const unsigned bits = __float_as_uint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<scalar_t>((bits >> 16) | 0x40u);
    return static_cast<scalar_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#else
    return value;
#endif
}
