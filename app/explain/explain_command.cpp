// `ringscope explain`: why recorded runs took as long as they did, as sentences or as JSON.
#include <fmt/format.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <memory>
#include <string>

#include "app/command_line/commands.h"
#include "app/report/terminal.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/explain/explain.h"
#include "core/trace/chrome_trace.h"

namespace ringscope {
namespace {

std::string text_of(const Explanation& why) {
  std::string text = fmt::format("The run took {}.\n", seconds_text(why.wall_s));
  int number = 0;
  for (const Diagnosis& finding : why.findings)
    text += fmt::format("{}. {}\n", ++number, sentence_of(finding));
  if (why.findings.empty()) text += "Nothing that can be mended costs 1 % of it.\n";
  if (why.exposed_s >= kLeastShare * why.wall_s)
    text += fmt::format(
        "Without all that, {} would still be lost to the way of the blocks, which takes "
        "longer than the computation beside it. Faster links or more rows a rank would hide it.\n",
        seconds_text(why.exposed_s));
  return text;
}

template <class Writer>
void write_json(Writer& json, const Explanation& why) {
  json.StartObject();
  json.Key("wall_ms");
  json.Double(1e3 * why.wall_s);
  json.Key("findings");
  json.StartArray();
  for (const Diagnosis& finding : why.findings) {
    const std::string_view cause = name_of(finding.cause);
    json.StartObject();
    json.Key("cause");
    json.String(cause.data(), static_cast<rapidjson::SizeType>(cause.size()));
    if (finding.rank >= 0) {
      json.Key("rank");
      json.Int(finding.rank);
    }
    if (finding.from >= 0) {
      json.Key("link");
      json.StartArray();
      json.Int(finding.from);
      json.Int(finding.to);
      json.EndArray();
    }
    json.Key("ms");
    json.Double(1e3 * finding.saved_s);
    json.Key("share");
    json.Double(finding.share);
    json.Key("confidence");
    json.Double(finding.confidence);
    json.Key("evidence");
    json.String(finding.evidence.c_str());
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
}

}  // namespace

Finish declare_explain(CommandFlags& flags) {
  const auto options = std::make_shared<ExplainOptions>();
  flags.words("TRACE", options->traces, "recordings of run, train or simulate --trace");
  flags.flag("--json", options->json, "print one JSON object, or a list of one for each trace");
  return [options] {
    if (options->traces.empty()) contradiction("explain", "no trace given", "explain TRACE...");
    return *options;
  };
}

int carry_out(const ExplainOptions& options) {
  const bool several = options.traces.size() > 1;
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> json(buffer);
  std::string text;
  if (several) json.StartArray();
  for (const std::string& path : options.traces) {
    const Recording recording = read_chrome_trace(path);
    const Explanation why = for_flag(path + ":", [&] { return explain(recording); });
    write_json(json, why);
    text += (several ? path + "\n" : "") + text_of(why);
  }
  if (several) json.EndArray();
  print_out(options.json ? std::string(buffer.GetString()) + "\n" : text);
  return 0;
}

}  // namespace ringscope
