// (A) Where abs(dy) is largest on every map, and the sum of the map, in one read of dy.
//
// Results lie as [Cout, N]: kernel (B) reads all samples of one output channel together. The tree of every sum is
// fixed, so the same input gives the same bits.

// A non-negative float orders as its bits; NaN counts as the largest, as in torch.argmax.
struct Peak {
    unsigned magnitude;
    int at;
    float sum;
};

__device__ __forceinline__ void take(Peak& peak, float value, int at) {
    const unsigned magnitude = __float_as_uint(value) & 0x7fffffffu;
    if (magnitude > peak.magnitude || (magnitude == peak.magnitude && at < peak.at)) {
        peak.magnitude = magnitude;
        peak.at = at;
    }
    peak.sum += value;
}

__device__ __forceinline__ void merge(Peak& peak, unsigned magnitude, int at, float sum) {
    if (magnitude > peak.magnitude || (magnitude == peak.magnitude && at < peak.at)) {
        peak.magnitude = magnitude;
        peak.at = at;
    }
    peak.sum += sum;
}

// Contiguous dy [N, Cout, pixels]. blockDim.x threads (a multiple of 32, at most 1024) read one map; blockDim.y maps
// share a block, and only where blockDim.x is 32.
extern "C" __global__ void peaks_planes(
    const scalar_t* __restrict__ dy, index_t maps, int pixels, index_t samples, index_t outputs,
    int* __restrict__ position, float* __restrict__ total) {
    __shared__ Peak warps[32];
    const index_t map = static_cast<index_t>(blockIdx.x) * blockDim.y + threadIdx.y;
    if (map >= maps) return;  // a whole warp at a time
    const scalar_t* values = dy + map * pixels;

    Peak peak = {0u, 0x7fffffff, 0.0f};
    for (int at = threadIdx.x; at < pixels; at += blockDim.x) take(peak, to_float(values[at]), at);
    for (int step = 16; step > 0; step /= 2) {
        const unsigned magnitude = __shfl_down_sync(0xffffffffu, peak.magnitude, step);
        const int at = __shfl_down_sync(0xffffffffu, peak.at, step);
        const float sum = __shfl_down_sync(0xffffffffu, peak.sum, step);
        merge(peak, magnitude, at, sum);
    }
    if (blockDim.x > 32) {
        if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = peak;
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int warp = 1; warp < blockDim.x / 32; ++warp)
                merge(peak, warps[warp].magnitude, warps[warp].at, warps[warp].sum);
        }
    }
    if (threadIdx.x == 0) {
        const index_t sample = map / outputs, output = map % outputs;
        position[output * samples + sample] = peak.at;
        total[output * samples + sample] = peak.sum;
    }
}

// channels_last dy [N, pixels, Cout]. A block reads 32 channels of sample blockIdx.y: lanes are channels, so that a
// warp's read is one piece of memory; blockDim.y warps (at most 32) share the pixels.
extern "C" __global__ void peaks_pixels(
    const scalar_t* __restrict__ dy, int pixels, index_t samples, index_t outputs,
    int* __restrict__ position, float* __restrict__ total) {
    __shared__ Peak rows[32][33];
    const index_t output = static_cast<index_t>(blockIdx.x) * 32 + threadIdx.x;
    const index_t sample = blockIdx.y;

    Peak peak = {0u, 0x7fffffff, 0.0f};
    if (output < outputs) {
        const scalar_t* values = dy + sample * pixels * outputs + output;
        for (int at = threadIdx.y; at < pixels; at += blockDim.y) take(peak, to_float(values[at * outputs]), at);
    }
    rows[threadIdx.y][threadIdx.x] = peak;
    __syncthreads();
    if (threadIdx.y == 0 && output < outputs) {
        for (int row = 1; row < blockDim.y; ++row) {
            const Peak& other = rows[row][threadIdx.x];
            merge(peak, other.magnitude, other.at, other.sum);
        }
        position[output * samples + sample] = peak.at;
        total[output * samples + sample] = peak.sum;
    }
}
