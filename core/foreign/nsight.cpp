// Reads what Nsight Systems exports (`nsys export --type sqlite`): a SQLite database of one process or of
// all processes of a node. Its kernels and NVTX ranges become events as PyTorch's profiler writes
// them, so that whatever reads those reads these, too. Tables and columns are those of NVIDIA's
// "Nsight Systems User Guide", section "SQLite Schema Reference".
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <tuple>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/text.h"
#include "core/foreign/kineto.h"
#ifdef RINGSCOPE_HAS_SQLITE
#include <sqlite3.h>
#endif

namespace ringscope {
namespace {

// A process on a device that runs at least a tenth as many of its kernels as the busiest one.
struct NsightRank {
  int rank = -1;
  std::string path;
  std::int64_t device = 0, process = 0;

  bool operator<(const NsightRank& other) const {
    return std::tie(rank, path, device, process) <
           std::tie(other.rank, other.path, other.device, other.process);
  }
};

// Return the number behind the last "rank" in the file's name, or else the last number, or -1.
int number_in_name(const std::string& path) {
  constexpr const char* kDigits = "0123456789";
  const std::string name = std::filesystem::path(path).stem().string();
  std::size_t begin = name.find_first_of(kDigits, name.rfind("rank"));
  if (begin == name.npos) begin = name.find_last_not_of(kDigits, name.find_last_of(kDigits)) + 1;
  const std::size_t end = std::min(name.find_first_not_of(kDigits, begin), name.size());
  return parse_number<int>(std::string_view(name).substr(begin, end - begin)).value_or(-1);
}

#ifdef RINGSCOPE_HAS_SQLITE

constexpr std::size_t kMaxRanksInFile = 64;
constexpr const char* kKernels = "CUPTI_ACTIVITY_KIND_KERNEL";

// A database that nobody trusts: it is never written, its views are off, and a query may take as
// many steps as the file's size explains.
class Database {
 public:
  explicit Database(const std::string& path)
      : size_(InputFile(path, "export of Nsight Systems").size()) {
    std::string uri = "file://";
    for (const char c : std::filesystem::absolute(path).lexically_normal().string())
      uri += c == '%' || c == '?' || c == '#' ? fmt::format("%{:02x}", c) : std::string(1, c);
    uri += "?immutable=1";  // takes no lock and looks for no journal
    sqlite3* db = nullptr;
    const int code =
        sqlite3_open_v2(uri.c_str(), &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, nullptr);
    db_.reset(db);
    check(code);
    check(sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr));
    check(sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr));
    check(sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr));
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 1 << 26);
    sqlite3_limit(db, SQLITE_LIMIT_SQL_LENGTH, 1 << 20);
    const auto count = [](void* self) {
      return static_cast<int>((static_cast<Database*>(self)->steps_left_ -= kStepsACall) < 0);
    };
    sqlite3_progress_handler(db, kStepsACall, count, this);
    for_rows("PRAGMA cell_size_check=ON", [](auto*) {});
  }

  // Call f(row) for the columns `wanted` of each row, if there is such a table with the first
  // `needed` ones; others that it lacks are 0. Views, virtual tables and generated columns do not
  // count.
  template <class F>
  void for_columns(const std::string& table, const std::vector<std::string>& wanted,
                   std::size_t needed, F&& f) {
    std::set<std::string> there;
    for_rows(
        "SELECT i.name FROM sqlite_master AS t, pragma_table_info(t.name) AS i WHERE "
        "t.type = 'table' AND t.rootpage > 0 AND t.sql LIKE 'CREATE TABLE%' AND t.name = '" +
            table + "'",
        [&](sqlite3_stmt* row) { there.insert(text_of(row, 0)); });
    std::string list;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const bool has = there.count(wanted[i]) > 0;
      if (!has && i < needed) return;
      list += (i > 0 ? ", " : "") + (has ? '"' + wanted[i] + '"' : "0");
    }
    for_rows("SELECT " + list + " FROM " + table + " NOT INDEXED", f);
  }

  // Return the strings by their ids.
  std::map<std::int64_t, std::string> strings() {
    std::map<std::int64_t, std::string> all;
    std::int64_t left = size_;
    for_columns("StringIds", {"id", "value"}, 2, [&](sqlite3_stmt* row) {
      std::string& text = all[sqlite3_column_int64(row, 0)] = text_of(row, 1);
      if (text.size() > 300)  // most of a template's name is parameters
        text = fmt::format("{}#{:x}", text.substr(0, 256), std::hash<std::string>()(text));
      if ((left -= static_cast<std::int64_t>(text.size())) < 0) check(SQLITE_CORRUPT);
    });
    return all;
  }

  // Return the begin of a text of a row, in ASCII that JSON takes as it is, or "".
  static std::string text_of(sqlite3_stmt* row, int column) {
    std::string text;
    if (sqlite3_column_type(row, column) != SQLITE_TEXT) return text;
    const unsigned char* bytes = sqlite3_column_text(row, column);
    for (; bytes != nullptr && *bytes != 0 && text.size() < 4096; ++bytes) {
      const bool plain = *bytes >= ' ' && *bytes <= '~' && *bytes != '"' && *bytes != '\\';
      text += plain ? static_cast<char>(*bytes) : '?';
    }
    return text;
  }

 private:
  static constexpr int kStepsACall = 1000;

  static void check(int code) {
    if (code == SQLITE_OK) return;
    throw InputError(fmt::format(
        "is no whole database: {}",
        code == SQLITE_INTERRUPT ? "more rows than its size explains" : sqlite3_errstr(code)));
  }

  template <class F>
  void for_rows(const std::string& sql, F&& f) {
    steps_left_ = size_ + 100'000;
    sqlite3_stmt* statement = nullptr;
    check(sqlite3_prepare_v2(db_.get(), sql.c_str(), -1, &statement, nullptr));
    const std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)> owner(statement,
                                                                           sqlite3_finalize);
    int code = SQLITE_ROW;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) f(statement);
    if (code != SQLITE_DONE) check(code);
  }

  std::unique_ptr<sqlite3, decltype(&sqlite3_close)> db_{nullptr, sqlite3_close};
  std::int64_t size_ = 0, steps_left_ = 0;  // bytes; of the present query
};

// The file that was read last, since a node's ranks follow each other.
struct OpenFile {
  std::string path;
  std::optional<Database> database;
  std::map<std::int64_t, std::string> strings;
};

void find_ranks(const std::string& path, std::vector<NsightRank>& ranks) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> kernels;  // by device, process
  std::map<std::int64_t, std::int64_t> most;                              // by process
  Database(path).for_columns(
      kKernels, {"start", "end", "deviceId", "globalPid"}, 2, [&](sqlite3_stmt* row) {
        const std::int64_t process = sqlite3_column_int64(row, 3);
        const std::int64_t count = ++kernels[{sqlite3_column_int64(row, 2), process}];
        most[process] = std::max(most[process], count);
        if (kernels.size() > kMaxRanksInFile)
          throw InputError("has more processes and devices than a node; one node's accepted");
      });
  if (kernels.empty())
    throw InputError(
        "has no kernels; an export of nsys profile --trace=cuda --cuda-graph-trace=node accepted");
  for (const auto& [where, count] : kernels)
    if (count >= most[where.second] / 10) ranks.push_back({-1, path, where.first, where.second});
}

// Return the events of a rank. `file` is that of the rank before, and becomes this one's.
std::string text_of(const NsightRank& rank, int world_size, OpenFile& file) {
  if (file.path != rank.path) {
    file.database.emplace(rank.path);
    file.strings = file.database->strings();
    file.strings[0].clear();  // of columns that are not there
    file.path = rank.path;
  }
  Database& database = *file.database;
  auto& strings = file.strings;
  const auto string_of = [&](sqlite3_stmt* row, int column) -> const std::string& {
    const auto found = strings.find(sqlite3_column_int64(row, column));
    return found == strings.end() ? strings[0] : found->second;
  };
  std::int64_t base = 0;
  database.for_columns("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs"}, 1,
                       [&](sqlite3_stmt* row) { base = sqlite3_column_int64(row, 0); });
  std::string text = fmt::format(
      R"({{"distributedInfo":{{"rank":{},"world_size":{}}},"baseTimeNanoseconds":{},"traceEvents":[)",
      rank.rank, world_size, base);
  // Add an event; its row begins with its times.
  const auto add = [&](const char* category, const std::string& name, sqlite3_stmt* row,
                       std::int64_t pid, std::int64_t tid, std::int64_t correlation) {
    const std::int64_t begin = sqlite3_column_int64(row, 0), end = sqlite3_column_int64(row, 1);
    if (begin < 0 || end < begin || end > kMaxTraceNs)
      throw InputError(
          fmt::format("{} given for start and {} for end; 0 <= start <= end accepted", begin, end));
    text += fmt::format(
        R"({{"ph":"X","cat":"{}","name":"{}","pid":{},"tid":{},"ts":{}.{:03},"dur":{}.{:03},"args":{{"correlation":{}}}}},)",
        category, name, pid, tid, begin / 1000, begin % 1000, (end - begin) / 1000,
        (end - begin) % 1000, correlation);
  };
  // The kernels of a CUDA graph share its launch's correlation: their times tell the order.
  const auto add_kernel = [&](sqlite3_stmt* row) {
    const auto number = [row](int column) { return sqlite3_column_int64(row, column); };
    if (number(2) == rank.process && number(3) == rank.device)
      add("kernel", string_of(row, string_of(row, 7).empty() ? 8 : 7), row, rank.device, number(4),
          number(6) == 0 ? number(5) : 0);
  };
  database.for_columns(kKernels,
                       {"start", "end", "globalPid", "deviceId", "streamId", "correlationId",
                        "graphNodeId", "demangledName", "shortName"},
                       2, add_kernel);
  database.for_columns(
      "NVTX_EVENTS", {"start", "end", "globalTid", "textId", "text"}, 3, [&](sqlite3_stmt* row) {
        const std::int64_t thread = sqlite3_column_int64(row, 2);  // the process's id and 24 bits
        const std::string own = Database::text_of(row, 4);
        const std::string& name = own.empty() ? string_of(row, 3) : own;
        if (thread >> 24 == rank.process >> 24 && !name.empty() &&
            sqlite3_column_type(row, 1) == SQLITE_INTEGER)  // a mark has no end
          add("user_annotation", name, row, thread >> 24 & 0xffffff, thread & 0xffffff, 0);
      });
  return text + "{}]}";
}

#else

constexpr const char* kLacks = "is a SQLite database, for which this build lacks libsqlite3-dev";
void find_ranks(const std::string&, std::vector<NsightRank>&) { throw InputError(kLacks); }
struct OpenFile {};
std::string text_of(const NsightRank&, int, OpenFile&) { throw InputError(kLacks); }

#endif

}  // namespace

bool is_nsight_export(const std::string& path) {
  return start_of_file(path, 16) == std::string("SQLite format 3\0", 16);
}

std::string for_nsight_ranks(
    const std::vector<std::string>& paths,
    const std::function<void(const std::string& path, const std::string& text)>& f) {
  std::vector<NsightRank> ranks;
  for (const std::string& path : paths) with_path_in_errors(path, [&] { find_ranks(path, ranks); });
  for (NsightRank& rank : ranks) rank.rank = number_in_name(rank.path);
  std::sort(ranks.begin(), ranks.end());
  // A process's id may stand in the name, too: numbers of ranks differ, and few are left out.
  const auto count = static_cast<int>(ranks.size());
  bool named = count > 1 && ranks[0].rank >= 0 && ranks.back().rank < 2 * count;
  for (std::size_t i = 1; i < ranks.size(); ++i) named = named && ranks[i].rank > ranks[i - 1].rank;
  for (int i = 0; i < count && !named; ++i) ranks[static_cast<std::size_t>(i)].rank = i;
  OpenFile file;
  for (const NsightRank& rank : ranks)
    f(rank.path,
      with_path_in_errors(rank.path, [&] { return text_of(rank, ranks.back().rank + 1, file); }));
  return named              ? "Ranks have the numbers in their files' names (confidence 0.9)."
         : paths.size() > 1 ? "Ranks are numbered by file, device and process (confidence 0.5)."
                            : "Ranks are numbered by device and process (confidence 0.7).";
}

}  // namespace ringscope
