// How a warpgroup of steps 07 and 12 attends the key tiles that visit its rows: softmax of one tile runs
// while the product with V of the tile before is in flight, and warpgroups take turns at starting products.
//
// p stays in f32 until the product that reads the last tile's P is over. If P were written earlier,
// the compiler would wait for that product first and serialise everything.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/kernels/hopper_tile.h"
#include "cuda/kernels/stamps.h"

namespace ringscope::cuda {

// Named barriers: kTurn + c for the turn of consumer c, kOwn + c for its own use.
inline constexpr int kTurn = 1, kOwn = 4;

// Wait until it is this consumer's turn to start products; pass_turn() passes the turn on.
template <class Config>
__device__ __forceinline__ void await_turn(int consumer) {
  ptx::named_barrier_sync(kTurn + consumer, 2 * kWarpgroupThreads);
}
template <class Config>
__device__ __forceinline__ void pass_turn(int consumer) {
  const int next = consumer + 1 == Config::kConsumers ? 0 : consumer + 1;
  ptx::named_barrier_arrive(kTurn + next, 2 * kWarpgroupThreads);
}

// Attend all key tiles of an item, whose state `rows` has. `at` is the place of its first K and V, and
// q_parity the phase of its Q; both move on to the next item's.
template <bool kPingPong, class Config, class Stamps>
__device__ __forceinline__ void attend_tiles(HopperStorage<Config>& shared,
                                             HopperRows<Config>& rows, const ForwardStep& step,
                                             const VisitingTile& tile, float exponent_scale,
                                             int consumer, StagePlace<Config::kStages>& at,
                                             std::uint32_t& q_parity, Stamps& stamps) {
  const auto mask_and_softmax = [&](int key_tile) {
    stamps.end(KernelPart::scores, key_tile);
    const int key = key_tile * Config::kKeys;
    if (!tile.is_full(key, key + Config::kKeys)) rows.mask(step, key);
    rows.softmax(exponent_scale);
    stamps.end(KernelPart::softmax, key_tile);
  };
  const auto await_next_k = [&](int key_tile) {
    if (key_tile + 1 == tile.last_tile) return;
    const StagePlace<Config::kStages> next = at.next();
    ptx::barrier_wait(shared.k_full[next.stage], next.parity);
    stamps.end(KernelPart::wait, key_tile + 1);
  };

  ptx::barrier_wait(shared.q_full, q_parity);
  q_parity ^= 1;
  if (step.softmax_scale < 0) negate_q(shared, consumer, kOwn + consumer);
  stamps.end(KernelPart::prologue);
  ptx::barrier_wait(shared.k_full[at.stage], at.parity);
  stamps.end(KernelPart::wait, tile.first_tile);
  ptx::wgmma_fence();
  rows.start_scores(shared.k[at.stage]);
  ptx::wgmma_wait<0>();
  finish(rows.s);
  release(shared.k_empty[at.stage]);
  mask_and_softmax(tile.first_tile);
  await_next_k(tile.first_tile);
  rows.rescale_output();
  rows.pack_p();

  // Here P of the previous tile is ready, its V is the buffer at `before`, and the previous iteration has
  // waited for K. That wait marks the end of softmax, so softmax cannot slip behind the wait for O that
  // follows (which the compiler hoists as far as it can).
  for (int key_tile = tile.first_tile + 1; key_tile < tile.last_tile; ++key_tile) {
    const StagePlace<Config::kStages> before = at;
    at.advance();
    if constexpr (kPingPong) await_turn<Config>(consumer);
    stamps.end(KernelPart::turn, key_tile);
    ptx::wgmma_fence();
    rows.start_scores(shared.k[at.stage]);
    ptx::barrier_wait(shared.v_full[before.stage], before.parity);
    ptx::wgmma_fence();
    rows.start_output(shared.v[before.stage]);
    if constexpr (kPingPong) pass_turn<Config>(consumer);
    ptx::wgmma_wait<1>();
    finish(rows.s);
    release(shared.k_empty[at.stage]);
    mask_and_softmax(key_tile);
    ptx::pin(rows.s.values[0]);
    await_next_k(key_tile);
    ptx::wgmma_wait<0>();
    finish(rows.o);
    release(shared.v_empty[before.stage]);
    rows.rescale_output();
    rows.pack_p();
    stamps.end(KernelPart::output, key_tile - 1);
  }

  release(shared.q_empty);
  ptx::barrier_wait(shared.v_full[at.stage], at.parity);
  ptx::wgmma_fence();
  rows.start_output(shared.v[at.stage]);
  ptx::wgmma_wait<0>();
  finish(rows.o);
  release(shared.v_empty[at.stage]);
  stamps.end(KernelPart::output, tile.last_tile - 1);
  at.advance();
}

}  // namespace ringscope::cuda
