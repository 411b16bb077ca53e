// The copy engine of the model brings both panels of a tile, and every number is looked for.
#include <cstring>
#include <string>

#include "lessons/book/gpu.h"
#include "tests/lessons/exercises/exercise_test.h"

void check(Exercise& exercise) {
  using namespace ringscope;
  namespace ptx = cuda::ptx;
  for (const int rows : {8, 24, 64}) {
    const auto value_at = [](int row, int column) {
      return bf16::from_float(static_cast<float>(row * 2 + column / 64) + column % 64 / 64.0f);
    };
    int wrong = 0, outside = 0;
    cuda::model::run_grid(1, 1, 64 * 256 + 8, [&] {
      auto* const tile = cuda::model::shared_bytes();
      auto& full = *reinterpret_cast<ptx::Barrier*>(tile + 64 * 256);
      ptx::barrier_init(full, 1);
      ptx::fence_barrier_init();
      ptx::barrier_arrive_expecting(full, static_cast<std::uint32_t>(rows * 256));
      std::vector<bf16> panels[2];
      cuda::TensorMap maps[2];
      for (const int panel : {0, 1}) {
        for (int i = 0; i < rows * 64; ++i)
          panels[panel].push_back(value_at(i / 64, panel * 64 + i % 64));
        maps[panel] = lessons::map_of(panels[panel], rows, true);
        ptx::tma_load(tile + panel * rows * 128, maps[panel], 0, 0, 0, full);
      }
      ptx::barrier_wait(full, 0);
      for (int row = 0; row < rows; ++row)
        for (int column = 0; column < 128; ++column) {
          const int at = byte_of(row, column, rows);
          if (at < 0 || at % 2 != 0 || at >= rows * 256) {
            ++outside;
            continue;
          }
          bf16 found;
          std::memcpy(&found, tile + at, sizeof found);
          wrong += found.bits != value_at(row, column).bits;
        }
    });
    exercise.equal(std::to_string(rows) + " rows: numbers outside of the tile", outside, 0);
    exercise.equal(std::to_string(rows) + " rows: numbers not found", wrong, 0);
  }
}
