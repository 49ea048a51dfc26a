// (B) dW[o] = scale * sum over samples of total[o,n] * (patch of x[n] under position[o,n]).
//
// One block for each (output channel, tile of Kh*Kw*Cin/groups). Every thread holds its elements' sums in registers
// while all samples pass, in order, and stores each once: no atomics, nothing to zero first, the same bits every time.

#define TILE_THREADS 128  // blockDim.x, and the samples whose peaks are kept at hand in shared memory
#define TILE_EACH 4       // elements of a thread

// What a launch needs to know, as one array of 64-bit integers on the device: made once for each shape and kept.
struct Sizes {
    index_t samples, height, width, wide;                        // wide: columns of dy
    index_t kernel_high, kernel_wide, stride_high, stride_wide;  // of the window
    index_t pad_high, pad_wide, dilation_high, dilation_wide;
    index_t depth, share;                          // input and output channels of a group
    index_t by_pixel;                              // x lies [N, H, W, Cin]: neighbouring threads take channels
    index_t x_sample, x_channel, x_row, x_column;  // strides in elements
    index_t w_output, w_channel, w_row, w_column;
};

extern "C" __global__ void __launch_bounds__(TILE_THREADS) patches(
    const scalar_t* __restrict__ x, const int* __restrict__ position, const float* __restrict__ total,
    scalar_t* __restrict__ dw, const Sizes* __restrict__ given, float scale) {
    __shared__ index_t corner[TILE_THREADS];
    __shared__ int top[TILE_THREADS], left[TILE_THREADS];
    __shared__ float factor[TILE_THREADS];

    const Sizes sizes = *given;
    const index_t output = blockIdx.x, group = output / sizes.share;
    const int samples = sizes.samples, height = sizes.height, width = sizes.width, wide = sizes.wide;
    const int columns = sizes.kernel_wide, area = sizes.kernel_high * sizes.kernel_wide, depth = sizes.depth;
    const int elements = area * depth;
    index_t offset[TILE_EACH];
    int down[TILE_EACH], right[TILE_EACH], window[TILE_EACH], channel[TILE_EACH];
    float sum[TILE_EACH];
    for (int i = 0; i < TILE_EACH; ++i) {
        const int element = (static_cast<int>(blockIdx.y) * TILE_EACH + i) * TILE_THREADS + threadIdx.x;
        window[i] = sizes.by_pixel ? element / depth : element % area;
        channel[i] = sizes.by_pixel ? element % depth : element / area;
        if (element >= elements) window[i] = -1;
        down[i] = window[i] / columns * sizes.dilation_high;
        right[i] = window[i] % columns * sizes.dilation_wide;
        offset[i] = (group * depth + channel[i]) * sizes.x_channel + down[i] * sizes.x_row + right[i] * sizes.x_column;
        sum[i] = 0.0f;
    }

    for (int first = 0; first < samples; first += TILE_THREADS) {
        const int mine = first + threadIdx.x;
        __syncthreads();  // the last round has been read
        if (mine < samples) {
            const int at = position[output * samples + mine];
            const int y = at / wide * sizes.stride_high - sizes.pad_high;
            const int z = at % wide * sizes.stride_wide - sizes.pad_wide;
            top[threadIdx.x] = y;
            left[threadIdx.x] = z;
            corner[threadIdx.x] = mine * sizes.x_sample + y * sizes.x_row + z * sizes.x_column;
            factor[threadIdx.x] = total[output * samples + mine] * scale;
        }
        __syncthreads();
        const int count = samples - first < TILE_THREADS ? samples - first : TILE_THREADS;
#pragma unroll 4
        for (int n = 0; n < count; ++n) {
            const float weight = factor[n];
            if (weight == 0.0f) continue;  // a map of zeros adds nothing, whatever x holds
            for (int i = 0; i < TILE_EACH; ++i) {
                const int y = top[n] + down[i], z = left[n] + right[i];
                if (window[i] >= 0 && y >= 0 && y < height && z >= 0 && z < width)
                    sum[i] += weight * to_float(x[corner[n] + offset[i]]);
            }
        }
    }
    for (int i = 0; i < TILE_EACH; ++i) {
        if (window[i] < 0) continue;
        const int row = window[i] / columns, column = window[i] % columns;
        dw[output * sizes.w_output + channel[i] * sizes.w_channel + row * sizes.w_row + column * sizes.w_column] =
            from_float(sum[i]);
    }
}
