// Parse topology files. two_racks.txt explains the format, topology.h what a topology means.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/sim/machine/topology.h"

namespace ringscope {
namespace {

constexpr std::size_t kMostLetters = 200;  // per word
constexpr int kMostVertices = 4096;        // nodes and switches
constexpr int kMostJoins = 16384;
constexpr int kMostRanks = 1 << 20;  // in total
constexpr int kMostLinks = 1024;     // per join
constexpr int kMostLinkNames = 64;   // each may lead to a file

constexpr const char* kLines =
    "node NAME ranks N link LINK, switch NAME, join A B LINK [COUNT], slow RANK SPEED";
constexpr const char* kLinkForms = "a link's name, GB_PER_S or GB_PER_S,LATENCY_US";

// Parse a file line by line. Errors name the current line, unless line_ is set to another.
class TopologyParser {
 public:
  explicit TopologyParser(const std::string& source) : source_(source) {}

  void take(std::string_view line) {
    ++line_;
    const std::vector<std::string> words = words_of(line);
    if (words.empty()) return;
    for (const std::string& word : words) check_word(word);
    const std::string& first = words[0];
    if (first == "node") {
      take_node(words);
    } else if (first == "switch") {
      take_switch(words);
    } else if (first == "join") {
      take_join(words);
    } else if (first == "slow") {
      take_slow(words);
    } else {
      fail(fmt::format("'{}' given; accepted: {}", first, kLines));
    }
  }

  Topology finish() {
    if (nodes_.empty())
      throw InputError(fmt::format("{}: no node in it; accepted: {}", source_, kLines));
    build();
    complain_about_islands();
    for (const auto& [rank, slow] : slow_) {
      line_ = slow.line;
      if (rank >= ranks_)
        fail(fmt::format("slow: rank {} given; accepted: 0 to {}, the nodes' ranks", rank,
                         ranks_ - 1));
      builder_.set_speed(rank, slow.speed);
    }
    return builder_.finish();
  }

 private:
  // Nodes are numbered before switches, in whatever order they are declared.
  struct Declared {
    int line = 0;
    bool is_node = false;
    int index = 0;  // among nodes or among switches
  };
  struct Node {
    std::string name;
    int ranks = 0;
    Link inside;
  };
  struct Join {
    std::string a, b;
    Link link;
    int count = 1;
  };
  struct Slow {
    int line = 0;
    double speed = 1;
  };

  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(fmt::format("{}: line {}: {}", source_, line_, what));
  }

  // Reject unprintable characters, so that later messages can quote the word on one line.
  void check_word(const std::string& word) const {
    if (word.size() > kMostLetters)
      fail(fmt::format("a word of {} letters; accepted: at most {}", word.size(), kMostLetters));
    if (!can_be_quoted(word)) fail(kNotQuotable);
  }

  void check_form(bool is_good, const std::vector<std::string>& words, const char* form) const {
    if (is_good) return;
    const auto shown = words.begin() + std::min<std::ptrdiff_t>(std::ssize(words), 7);
    fail(fmt::format("{}: '{}{}' given; accepted: {}", words[0],
                     fmt::join(words.begin(), shown, " "), words.size() > 7 ? " ..." : "", form));
  }

  void take_node(const std::vector<std::string>& words) {
    check_form(words.size() == 6 && words[2] == "ranks" && words[4] == "link", words,
               "node NAME ranks N link LINK");
    declare(words[1], true);
    const int ranks = integer("ranks", words[3], 1, kMostRanks);
    if (ranks_ > kMostRanks - ranks)
      fail(fmt::format("ranks: '{}' given, {} in all; accepted: up to {} in all", words[3],
                       ranks_ + ranks, kMostRanks));
    ranks_ += ranks;
    nodes_.push_back({words[1], ranks, link("link", words[5])});
  }

  void take_switch(const std::vector<std::string>& words) {
    check_form(words.size() == 2, words, "switch NAME");
    declare(words[1], false);
    switches_.push_back(words[1]);
  }

  void declare(const std::string& name, bool is_node) {
    if (const auto other = declared_.find(name); other != declared_.end())
      fail(fmt::format("'{}' given twice, first on line {}; accepted: a name once", name,
                       other->second.line));
    if (static_cast<int>(declared_.size()) == kMostVertices)
      fail(fmt::format("'{}' is one too many; accepted: up to {} nodes and switches", name,
                       kMostVertices));
    const std::size_t index = is_node ? nodes_.size() : switches_.size();
    declared_[name] = {line_, is_node, static_cast<int>(index)};
  }

  void take_join(const std::vector<std::string>& words) {
    check_form(words.size() == 4 || words.size() == 5, words, "join A B LINK [COUNT]");
    const std::string &a = words[1], &b = words[2];
    for (const std::string& name : {a, b})
      if (!declared_.contains(name))
        fail(fmt::format(
            "join: '{}' given; accepted: a node or switch that is declared on a line before",
            name));
    if (a == b) fail(fmt::format("join: '{}' given twice; accepted: two that differ", a));
    if (!joined_.insert(std::minmax(a, b)).second)
      fail(fmt::format("join: '{}' and '{}' joined twice; accepted: once, with a COUNT", a, b));
    if (static_cast<int>(joins_.size()) == kMostJoins)
      fail(fmt::format("join: one too many; accepted: up to {}", kMostJoins));
    const int count = words.size() == 5 ? integer("count", words[4], 1, kMostLinks) : 1;
    joins_.push_back({a, b, link("link", words[3]), count});
  }

  void take_slow(const std::vector<std::string>& words) {
    check_form(words.size() == 3, words, "slow RANK SPEED");
    const int rank = integer("rank", words[1], 0, kMostRanks - 1);
    const double speed = number("speed", words[2], 1e-3, 1e3);
    if (!slow_.emplace(rank, Slow{line_, speed}).second)
      fail(fmt::format("slow: rank {} given twice, first on line {}; accepted: a rank once", rank,
                       slow_.at(rank).line));
  }

  int integer(const char* field, const std::string& text, int least, int most) const {
    const std::optional<int> value = parse_number<int>(text);
    if (!value || *value < least || *value > most)
      fail(fmt::format("{}: '{}' given; accepted: an integer from {} to {}", field, text, least,
                       most));
    return *value;
  }

  double number(const char* field, std::string_view text, double least, double most) const {
    const std::optional<double> value = parse_number<double>(text);
    if (!value || !(*value >= least && *value <= most))
      fail(fmt::format("{}: '{}' given; accepted: a number from {:g} to {:g}", field, text, least,
                       most));
    return *value;
  }

  // The bounds are far beyond any machine and far from overflow.
  Link link(const char* field, const std::string& text) {
    if (text.find_first_of("0123456789.+-") == 0) {
      const std::size_t comma = text.find(',');
      const std::string_view whole = text;
      Link link;
      link.name = text;
      link.bytes_per_s = 1e9 * number("GB_PER_S", whole.substr(0, comma), 1e-9, 1e12);
      if (comma != std::string::npos)
        link.latency_s = 1e-6 * number("LATENCY_US", whole.substr(comma + 1), 0, 1e12);
      return link;
    }
    if (const auto known = links_.find(text); known != links_.end()) return known->second;
    if (static_cast<int>(links_.size()) == kMostLinkNames)
      fail(fmt::format("{}: '{}' is one too many; accepted: up to {} names of links", field, text,
                       kMostLinkNames));
    try {
      return links_[text] = find_link(text);
    } catch (const InputError& error) {
      fail(fmt::format("{}: {}; accepted as well: {}", field, error.what(), kLinkForms));
    }
  }

  int vertex(const std::string& name) const {
    const Declared& declared = declared_.at(name);
    return declared.index + (declared.is_node ? 0 : static_cast<int>(nodes_.size()));
  }

  void build() {
    int first = 0;
    for (const Node& node : nodes_) {
      std::vector<int> ranks(node.ranks);
      std::iota(ranks.begin(), ranks.end(), first);
      first += node.ranks;
      builder_.add_node(node.name, std::move(ranks), node.inside);
    }
    for (const std::string& name : switches_) builder_.add_switch(name);
    for (const Join& join : joins_)
      builder_.join(vertex(join.a), vertex(join.b), join.link, join.count);
  }

  void complain_about_islands() {
    const std::vector<int> lost = builder_.unreachable();
    if (lost.empty()) return;
    constexpr std::size_t kMostNames = 5;
    std::string names;
    for (std::size_t k = 0; k < std::min(lost.size(), kMostNames); ++k)
      names += (k == 0 ? "" : ", ") + name_of(lost[k]);
    if (lost.size() > kMostNames) names += fmt::format(" and {} more", lost.size() - kMostNames);
    line_ = declared_.at(name_of(lost[0])).line;
    fail(fmt::format("join: nothing leads from {} to {}; accepted: joins that connect all",
                     nodes_[0].name, names));
  }

  const std::string& name_of(int vertex) const {
    const auto index = static_cast<std::size_t>(vertex);
    return index < nodes_.size() ? nodes_[index].name : switches_[index - nodes_.size()];
  }

  std::string source_;
  int line_ = 0;
  int ranks_ = 0;
  std::map<std::string, Declared> declared_;
  std::vector<Node> nodes_;
  std::vector<std::string> switches_;
  std::set<std::pair<std::string, std::string>> joined_;
  std::vector<Join> joins_;
  std::map<int, Slow> slow_;
  std::map<std::string, Link> links_;  // looked up so far
  TopologyBuilder builder_;
};

}  // namespace

Topology parse_topology(std::string_view text, const std::string& source) {
  TopologyParser parser(source);
  for_each_line(text, [&](std::string_view line) { parser.take(line); });
  return parser.finish();
}

Topology read_topology(const std::string& path) {
  return parse_topology(read_table(path, "file of a topology"), path);
}

}  // namespace ringscope
