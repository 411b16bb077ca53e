#include "app/generate_output.h"

#include <unistd.h>

#include "app/terminal.h"

namespace ringscope {

GenerateOutput::GenerateOutput(const GenerateRequest& request, const GenerateInputs& inputs)
    : request_(request),
      inputs_(inputs),
      is_read_as_it_comes_(!request.json && ::isatty(STDOUT_FILENO) == 1) {}

OnPrefill GenerateOutput::on_prefill() {
  bar_.emplace("prompt");
  return bar_->callback();
}

OnByte GenerateOutput::on_byte() {
  return [this](std::uint8_t byte) { say(byte); };
}

void GenerateOutput::say(std::uint8_t byte) {
  if (said_++ == 0) {
    bar_.reset();  // what it is drawn on belongs to the text now
    if (!is_read_as_it_comes_) draw_ = bar_.emplace("text").callback();
    // Bytes of the prompt and those that follow may be one character.
    std::string prompt;
    if (request_.prompt || request_.prompt_file)
      for (const char c : inputs_.options.prompt)
        prompt += shown_.add(static_cast<unsigned char>(c));
    print(prompt);
  }
  print(shown_.add(byte));
  if (draw_) draw_(static_cast<double>(said_) / static_cast<double>(inputs_.options.bytes));
}

void GenerateOutput::print(const std::string& text) {
  if (request_.json || text.empty()) return;
  print_out(text);
  is_at_line_begin_ = text.back() == '\n';
}

void GenerateOutput::end(const Generated& generated) {
  bar_.reset();
  if (request_.json) return print_out(generate_json(request_, inputs_, generated));
  print(shown_.finish());
  if (!is_at_line_begin_) print("\n");
}

}  // namespace ringscope
