// Step 06: Hopper's own instructions. What changes compared with step 05:
//
//   a The copy engine (TMA) fetches tiles: one thread asks for a whole tile, which is swizzled on
//     the way, and the threads that compute spend no instruction on copying.
//     Products are WGMMA: four warps multiply a 64-row tile directly from shared memory, so K and V
//     never enter registers. mma.sync reaches about two thirds of this rate.
//   b Warps have roles. One warpgroup (its first thread) produces and gives its registers away; two
//     consume, 64 rows each, with 240 registers per thread. Only full and empty barriers in a ring
//     of stages connect them, so copies run as far ahead as there are buffers. Without roles (rung
//     06a) the first thread asks for the next tile before it computes the present one.
//
// Within a warpgroup the steps S = Q K^T, softmax, O += P V still follow each other. While one
// warpgroup is at its softmax, the tensor cores work only if the other happens to be at a product.
//
// m = row_max, l = row_sum, S = scores, P = exp(S - m), O = out_accum. hopper_tile.h has their
// registers.
#include "cuda/base/launch.h"
#include "cuda/kernels/hopper_tile.h"
#include "cuda/kernels/kernel_table.h"
#include "cuda/ptx/registers.h"
#include "cuda/ptx/watchdog.h"

namespace ringscope::cuda {
namespace {

template <class Config, bool kRoles>
inline constexpr int kThreads = Config::kThreads - (kRoles ? 0 : kWarpgroupThreads);

// Grid: (row tiles, heads, batch).
template <class Config, bool kRoles, class... Buffer>
__global__ void __launch_bounds__(kThreads<Config, kRoles>, 1)
    hopper(const ForwardStep step, const float exponent_scale,
           const __grid_constant__ HopperMaps maps, Buffer... buffer) {
  auto& shared = shared_memory<HopperStorage<Config>>();
  // The last row tiles have the most keys under a causal mask, so they start first.
  const int row_tile = static_cast<int>(gridDim.x - 1 - blockIdx.x);
  const int head = static_cast<int>(blockIdx.y), batch = static_cast<int>(blockIdx.z);
  const VisitingTile tile(step.allowed_keys, step.shape.rows_q, Config::kRows, Config::kKeys,
                          row_tile);
  if (threadIdx.x == 0) {
    init_barriers(shared);
    prefetch_maps(step, maps);
  }
  __syncthreads();

  const int warpgroup = warpgroup_index();
  const int q_matrix = batch * step.shape.heads + head;
  const int kv_matrix = batch * step.shape.heads_kv + step.shape.kv_head(head);
  StagePlace<Config::kStages> at;
  const auto count_item = [&] {
    if (threadIdx.x / 32 == 1) count<Config>(step, tile, q_matrix == 0);
  };
  if (kRoles && warpgroup == 0) {
    // The consumers wait for these registers, so counting comes after.
    ptx::release_registers<Config::kProducerRegisters>();
    count_item();
    Stamps<Buffer...> stamps{buffer...};
    if (threadIdx.x == 0 && tile.key_tiles() > 0)
      produce(shared, maps, tile, q_matrix, kv_matrix, 0, at, stamps);
  } else {
    if constexpr (kRoles) {
      ptx::claim_registers<Config::kConsumerRegisters>();
    } else {
      count_item();
    }
    const int consumer = warpgroup - (kRoles ? 1 : 0);
    StagePlace<Config::kStages> ahead;
    const auto fetch = [&](int key_tile) {
      if constexpr (!kRoles) {
        if (threadIdx.x == 0 && key_tile < tile.last_tile) {
          if (key_tile == tile.first_tile) produce_q(shared, maps, tile, q_matrix, 0);
          produce_kv(shared, maps, key_tile, kv_matrix, ahead);
        }
        __syncwarp();
      }
    };
    fetch(tile.first_tile);
    HopperRows<Config> rows(shared, consumer);
    Stamps<Buffer...> stamps{buffer...};
    stamps.begin(q_matrix, row_tile);
    rows.begin(step, batch, head, tile.first + consumer * kWarpgroupRows);
    if (tile.key_tiles() > 0) {
      ptx::barrier_wait(shared.q_full, 0);
      if (step.softmax_scale < 0) negate_q(shared, consumer, 1 + consumer);
    }
    stamps.end(KernelPart::prologue);
    for (int key_tile = tile.first_tile; key_tile < tile.last_tile; ++key_tile) {
      const int key = key_tile * Config::kKeys;
      fetch(key_tile + 1);
      ptx::barrier_wait(shared.k_full[at.stage], at.parity);
      stamps.end(KernelPart::wait, key_tile);
      ptx::wgmma_fence();
      rows.start_scores(shared.k[at.stage]);
      ptx::wgmma_wait<0>();
      finish(rows.s);
      release(shared.k_empty[at.stage]);
      stamps.end(KernelPart::scores, key_tile);

      if (!tile.is_full(key, key + Config::kKeys)) rows.mask(step, key);
      rows.softmax(exponent_scale);
      rows.rescale_output();
      rows.pack_p();
      stamps.end(KernelPart::softmax, key_tile);

      ptx::barrier_wait(shared.v_full[at.stage], at.parity);
      ptx::wgmma_fence();
      rows.start_output(shared.v[at.stage]);
      ptx::wgmma_wait<0>();
      finish(rows.o);
      release(shared.v_empty[at.stage]);
      stamps.end(KernelPart::output, key_tile);
      at.advance();
    }
    rows.end(step);
    stamps.end(KernelPart::epilogue);
  }
}

template <class Config, bool kRoles, class... Buffer>
void launch_instance(const ForwardStep& step, cudaStream_t stream, const Buffer&... buffer) {
  ptx::arm_hang_record("06_hopper");
  const dim3 grid(tiles_for(step.shape.rows_q, Config::kRows), step.shape.heads, step.shape.batch);
  launch(hopper<Config, kRoles, Buffer...>,
         {grid, kThreads<Config, kRoles>, sizeof(HopperStorage<Config>)}, stream, step,
         exponent_scale_of(step.softmax_scale), make_maps<Config>(step), buffer...);
}

template <bool kRoles>
void launch_step(const ForwardStep& step, DType dtype, int, cudaStream_t stream) {
  visit_hopper_config(step, dtype, [&]<class Config>(Config) {
    if constexpr (kRoles || kIsOfRungs<Config>) launch_instance<Config, kRoles>(step, stream);
  });
}

void launch_stamped(const ForwardStep& step, DType dtype, const StampBuffer& buffer,
                    cudaStream_t stream) {
  visit_hopper_config(step, dtype, [&]<class Config>(Config) {
    launch_instance<Config, true>(step, stream, buffer);
  });
}

}  // namespace

constinit const Kernel hopper_kernel{
    .number = 6,
    .name = "hopper",
    .idea = "TMA copies, WGMMA products, a producer and two consumer warpgroups",
    .limits = {.half = true, .hopper = true},
    .tiles = kHopperTiles,
    .launch_forward = launch_step<true>,
    .launch_stamped = launch_stamped};

constinit const Kernel hopper_without_roles =
    rung_of(6, 'a', "without_roles", "TMA and WGMMA; the threads that compute start the copies",
            launch_step<false>, kHopperTiles);

}  // namespace ringscope::cuda
