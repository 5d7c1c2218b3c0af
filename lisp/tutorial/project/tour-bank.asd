;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The small bank of agent-q's tour.

(asdf:defsystem "tour-bank"
  :description "Accounts, and moving money between them."
  :version "1.0"
  :serial t
  :components ((:file "src/package") (:file "src/bank"))
  :in-order-to ((asdf:test-op (asdf:test-op "tour-bank/tests"))))

(asdf:defsystem "tour-bank/tests"
  :depends-on ("tour-bank" (:feature :sbcl "sb-rt"))
  :components ((:file "tests/bank"))
  :perform (asdf:test-op (operation system)
             (uiop:symbol-call "TOUR-BANK/TESTS" "RUN")))
