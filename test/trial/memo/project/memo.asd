;;; SPDX-License-Identifier: GPL-3.0-or-later

(defsystem "memo"
  :components ((:file "memo"))
  :in-order-to ((test-op (test-op "memo/test"))))

(defsystem "memo/test"
  :depends-on ("memo")
  :components ((:file "test"))
  :perform (test-op (operation component)
             (symbol-call :memo-test :run)))
