// What every command refuses, as refusals.txt says.
#include <gtest/gtest.h>

#include <map>

#include "core/base/files.h"
#include "tests/app/call_table.h"
#include "tests/core/training/checkpoint_case.h"

namespace ringscope {
namespace {

class RefusalsTest : public RefusingProgramTest {
 protected:
  void write_files() const {
    write_good_files();
    std::vector<Index> ranks;
    for (Index p = 0; p < 200; ++p) ranks.push_back(p * p % 7 % 3);
    AtomicFile file(path("ranks.npy"));
    write_npy_integers(file, {200}, ranks);
    file.commit();
    for (const auto& [name, text] :
         std::map<std::string, std::string>{{"t.txt", std::string(1000, 'x')},
                                            {"ten.txt", "0123456789"},
                                            {"empty.txt", ""},
                                            {"large", std::string((1 << 20) + 1, 'x')},
                                            {"slices.txt", "0 9 0 9 full\n3 4 3 4 full\n"},
                                            {"outside.txt", "0 9 0 201 full\n"},
                                            {"bad.txt", "gpu a\ntflops_16bit 0\nmemory_gb 1\n"},
                                            {"slow.txt", "link slow\ngb_per_s -3\n"}})
      write_text(name, text);
    save_checkpoint(path("c"), small_checkpoint(256));
    save_checkpoint(path("full"), small_checkpoint(256, "full"));
    save_checkpoint(path("few"), small_checkpoint(17));
  }
};

TEST_F(RefusalsTest, NameTheFlagTheValueAndWhatIsAccepted) {
  write_files();
  EXPECT_GT(expect_refusals("tests/app/refusals.txt"), 300);
}

}  // namespace
}  // namespace ringscope
