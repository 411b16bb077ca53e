// What tests of `train` share: a text, a model that takes a moment, and how it is run.
#pragma once

#include "core/base/text.h"
#include "tests/app/program.h"

namespace ringscope {

// A model that takes a moment.
inline const Strings kTiny =
    "train --text t.txt --layers 1 --width 16 --heads 2 --heads-kv 1 --head-dim 8 --hidden 24 "
    "--batch 2 --seqlen 30 --lr 0.01";

class TrainCommandTest : public ProgramTest {
 protected:
  // The same with heads for two ranks.
  static Strings tiny_with_kv_heads() {
    Strings arguments = kTiny;
    arguments[10] = "2";  // --heads-kv
    return arguments;
  }

  TrainCommandTest() {
    for (int i = 0; i < 40; ++i)
      text_ += "round and round the ring they go, " + std::to_string(i % 10) + "\n";
    write_text("t.txt", text_);
  }

  // A row of a table of losses; what it says of its run is empty where it says nothing.
  struct Row {
    Index step = 0;
    double loss = 0;
    std::string origin;

    bool operator==(const Row& other) const { return step == other.step && loss == other.loss; }
  };
  std::vector<Row> rows(const std::string& name) const {
    std::vector<Row> rows;
    for_each_line(bytes(name), [&](std::string_view line) {
      if (line.starts_with("step,loss,version,commit,command,seed,machine,time")) return;
      const std::size_t comma = line.find(','), end = line.find(',', comma + 1);
      const auto step = parse_number<Index>(line.substr(0, comma));
      const auto loss = parse_number<float>(line.substr(comma + 1, end - comma - 1));
      ASSERT_TRUE(step && loss && end != line.npos) << line;
      rows.push_back(
          {*step, *loss, line.substr(end) == ",,,,,," ? "" : std::string(line.substr(end))});
    });
    return rows;
  }
  std::vector<double> losses(const std::string& name) const {
    std::vector<double> result;
    for (const Row& row : rows(name)) {
      EXPECT_EQ(row.step, static_cast<Index>(result.size()) + 1);
      result.push_back(row.loss);
    }
    return result;
  }
  std::string bytes(const std::string& name) const { return contents_of(path(name)); }

  std::string text_;
};

}  // namespace ringscope
