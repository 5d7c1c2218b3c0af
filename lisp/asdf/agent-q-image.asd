;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; For programs that offer tools to agent-q: the package AGENT-Q-IMAGE with DEFINE-TOOL. Runs
;;; without Emacs; when agent-q connects, it finds the tools and sends the rest of its half.

(asdf:defsystem "agent-q-image"
  :description "Offer functions of a running program to the agent in Emacs as tools."
  :license "GPL-3.0-or-later"
  :version "0.1.0"
  :pathname "../image/"
  :serial t
  :components ((:file "base/package")
               (:file "tools/define")
               (:file "tools/json")))
