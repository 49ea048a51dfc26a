// Just enough of CUDA to run a kernel's source on the CPU: the threads of a block are fibres that take turns, and a
// barrier or a warp shuffle lets the others run until all have arrived. Blocks run one after another.
//
// A fibre that waits where another never arrives would hang on a GPU; here it is reported and the process aborts.

#pragma once
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(threads)
#define __shared__ static  // one copy is enough: blocks never overlap

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
};
static dim3 gridDim, blockDim, blockIdx, threadIdx;

inline unsigned __float_as_uint(float value) {
    unsigned bits;
    std::memcpy(&bits, &value, 4);
    return bits;
}
inline float __uint_as_float(unsigned bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}

namespace fibres {

struct Barrier {
    int members = 0, arrived = 0;
    long generation = 0;
    void leave_or_arrive(bool leaving) {
        if (leaving) --members; else ++arrived;
        if (members > 0 && arrived == members) { arrived = 0; ++generation; }
    }
};

struct Fibre {
    ucontext_t context;
    std::vector<char> stack;
    dim3 index;
    bool done = false;
};

static ucontext_t scheduler;
static std::vector<Fibre> block;
static std::vector<Barrier> warps;
static Barrier all;
static std::vector<unsigned long long> slots;
static int current;
static long moves;  // barriers passed and fibres ended: a full round without any is a deadlock
static std::function<void()> body;

inline void wait(Barrier& barrier) {
    const long mine = barrier.generation;
    barrier.leave_or_arrive(false);
    while (barrier.generation == mine) swapcontext(&block[current].context, &scheduler);
    ++moves;
}

inline void entry() {
    body();
    block[current].done = true;
    all.leave_or_arrive(true);
    warps[current / 32].leave_or_arrive(true);
    ++moves;
}

inline void run_block() {
    const int threads = blockDim.x * blockDim.y * blockDim.z;
    if (static_cast<int>(block.size()) < threads) block.resize(threads);
    slots.assign(threads, 0);
    warps.assign((threads + 31) / 32, Barrier());
    all = Barrier();
    all.members = threads;
    for (int t = 0; t < threads; ++t) {
        Fibre& fibre = block[t];
        if (fibre.stack.empty()) fibre.stack.resize(64 << 10);
        fibre.done = false;
        fibre.index = {t % blockDim.x, t / blockDim.x % blockDim.y, t / (blockDim.x * blockDim.y)};
        getcontext(&fibre.context);
        fibre.context.uc_stack.ss_sp = fibre.stack.data();
        fibre.context.uc_stack.ss_size = fibre.stack.size();
        fibre.context.uc_link = &scheduler;
        makecontext(&fibre.context, entry, 0);
        ++warps[t / 32].members;
    }
    for (bool running = true; running;) {
        running = false;
        const long before = moves;
        for (current = 0; current < threads; ++current) {
            if (block[current].done) continue;
            running = true;
            threadIdx = block[current].index;
            swapcontext(&scheduler, &block[current].context);
        }
        if (running && moves == before) {
            std::fprintf(stderr, "cuda_on_cpu: the threads of a block wait for each other for ever\n");
            std::abort();
        }
    }
}

inline void launch(const int* sizes, std::function<void()> kernel) {  // grid x, y, block x, y
    gridDim = {static_cast<unsigned>(sizes[0]), static_cast<unsigned>(sizes[1]), 1};
    blockDim = {static_cast<unsigned>(sizes[2]), static_cast<unsigned>(sizes[3]), 1};
    body = kernel;
    for (unsigned y = 0; y < gridDim.y; ++y)
        for (unsigned x = 0; x < gridDim.x; ++x) {
            blockIdx = {x, y, 0};
            run_block();
        }
}

}  // namespace fibres

inline void __syncthreads() { fibres::wait(fibres::all); }

// All lanes of the warp that still run must take part, as the mask 0xffffffff says.
template <typename T>
T __shfl_down_sync(unsigned, T value, unsigned step) {
    using namespace fibres;
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    std::memcpy(&slots[current], &value, sizeof(T));
    wait(warps[current / 32]);
    const unsigned source = current % 32 + step;
    if (source < 32 && current + step < slots.size()) std::memcpy(&value, &slots[current + step], sizeof(T));
    wait(warps[current / 32]);
    return value;
}
