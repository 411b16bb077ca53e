#include "viz/app/window_events.h"

#include <GLFW/glfw3.h>

#include <algorithm>
#include <utility>

namespace ringscope::viz {
namespace {

SpecialKey special_key(int key) {
  switch (key) {
    case GLFW_KEY_LEFT:
      return SpecialKey::left;
    case GLFW_KEY_RIGHT:
      return SpecialKey::right;
    case GLFW_KEY_HOME:
      return SpecialKey::home;
    case GLFW_KEY_END:
      return SpecialKey::end;
    case GLFW_KEY_BACKSPACE:
      return SpecialKey::backspace;
    case GLFW_KEY_ESCAPE:
      return SpecialKey::escape;
    case GLFW_KEY_ENTER:
    case GLFW_KEY_KP_ENTER:
      return SpecialKey::enter;
    case GLFW_KEY_TAB:
      return SpecialKey::tab;
    default:
      return SpecialKey::none;
  }
}

WindowListener& of(GLFWwindow* window) {
  return *static_cast<WindowListener*>(glfwGetWindowUserPointer(window));
}

void push(GLFWwindow* window, const InputEvent& event) {
  of(window).queue.push(event);
  of(window).happened();
}

}  // namespace

void listen(GLFWwindow* window, WindowListener& listener) {
  glfwSetWindowUserPointer(window, &listener);
  glfwSetCursorPosCallback(window, [](GLFWwindow* from, double x, double y) {
    int window_width = 1, window_height = 1, width = 1, height = 1;
    glfwGetWindowSize(from, &window_width, &window_height);
    glfwGetFramebufferSize(from, &width, &height);
    const double ratio = width / std::max(1.0, double(window_width)) / of(from).scale;
    InputEvent event;
    event.kind = InputEvent::move;
    event.x = static_cast<float>(x * ratio);
    event.y = static_cast<float>(y * ratio);
    push(from, event);
  });
  glfwSetCursorEnterCallback(window, [](GLFWwindow* from, int entered) {
    if (entered == GLFW_TRUE) return;
    InputEvent event;
    event.kind = InputEvent::move;
    event.x = event.y = -1;
    push(from, event);
  });
  glfwSetMouseButtonCallback(window, [](GLFWwindow* from, int button, int action, int) {
    if (button > GLFW_MOUSE_BUTTON_MIDDLE) return;
    InputEvent event;
    event.kind = InputEvent::button;
    event.button_number = button;
    event.pressed = action == GLFW_PRESS;
    push(from, event);
  });
  glfwSetScrollCallback(window, [](GLFWwindow* from, double x, double y) {
    InputEvent event;
    event.kind = InputEvent::scroll;
    event.x = static_cast<float>(x);
    event.y = static_cast<float>(y);
    push(from, event);
  });
  glfwSetKeyCallback(window, [](GLFWwindow* from, int key, int, int action, int mods) {
    of(from).happened();  // modifiers matter by themselves
    if (action == GLFW_RELEASE) return;
    if ((mods & GLFW_MOD_CONTROL) != 0 && (key == GLFW_KEY_Q || key == GLFW_KEY_W))
      glfwSetWindowShouldClose(from, GLFW_TRUE);
    InputEvent event;
    event.kind = InputEvent::key;
    event.key_pressed.special = special_key(key);
    event.key_pressed.shift = (mods & GLFW_MOD_SHIFT) != 0;
    if (event.key_pressed.special != SpecialKey::none) push(from, event);
  });
  // Printable keys come as the characters that the keyboard's layout makes of them.
  glfwSetCharCallback(window, [](GLFWwindow* from, unsigned character) {
    InputEvent event;
    event.kind = InputEvent::key;
    const bool upper = character >= 'A' && character <= 'Z';
    event.key_pressed.character = upper ? character - 'A' + 'a' : character;
    push(from, event);
    event.kind = InputEvent::text;
    event.character = character;
    push(from, event);
  });
  glfwSetDropCallback(window, [](GLFWwindow* from, int count, const char** paths) {
    of(from).happened();
    of(from).dropped(std::vector<std::string>(paths, paths + count));
  });
  glfwSetWindowRefreshCallback(window, [](GLFWwindow* from) { of(from).happened(); });
  glfwSetFramebufferSizeCallback(window, [](GLFWwindow* from, int, int) { of(from).happened(); });
}

}  // namespace ringscope::viz
