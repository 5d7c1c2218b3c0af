;;; SPDX-License-Identifier: GPL-3.0-or-later

(defsystem "weeks"
  :serial t
  :components ((:file "days") (:file "weeks"))
  :in-order-to ((test-op (test-op "weeks/test"))))

(defsystem "weeks/test"
  :depends-on ("weeks")
  :components ((:file "test"))
  :perform (test-op (operation component)
             (symbol-call :weeks-test :run)))
