;;; agent-q-chat-test.el --- The chat buffer  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Layout, streaming, point, undo, history, items.  Events are made up, their
;; way into the buffer is the real one.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-registry)

;;;; Layout

(ert-deftest agent-q-chat-has-a-read-only-log-and-an-editable-prompt ()
  (agent-q-test-with-chat
    (insert "typed")
    (should (equal (agent-q-prompt-text) "typed"))
    (set-buffer-modified-p nil)
    (agent-q-test-event :turn-started :turn 1 :text "hello")
    (agent-q-test-event :text :text "An answer.")
    (agent-q-test-event :turn-ended :outcome :finished)
    (should (equal (agent-q-prompt-text) "typed"))
    (dolist (place (list (point-min) (agent-q-test-find "hello")
                         (agent-q-test-find "answer")
                         (marker-position agent-q-render-end)
                         (1- agent-q-prompt-start)))
      (goto-char place)
      (should-error (insert "x") :type 'text-read-only)
      (should-error (delete-char 1) :type 'text-read-only))
    (goto-char (point-max))
    (move-beginning-of-line 1)
    (should (= (point) agent-q-prompt-start))
    (should-not (buffer-modified-p))))

(ert-deftest agent-q-chat-lines-of-a-message-begin-below-each-other ()
  "The prompt is in front of the first one only, and all copy as they were typed."
  (agent-q-test-with-chat
    (agent-q-test-event :turn-started :turn 1 :text "first\nsecond\nthird")
    (should-not (get-text-property (agent-q-test-find "first") 'line-prefix))
    (dolist (line '("second" "third"))
      (should (equal (get-text-property (agent-q-test-find line) 'line-prefix) "  ")))
    (should (string-suffix-p "> first\nsecond\nthird\n\n" (agent-q-test-log)))))

(ert-deftest agent-q-chat-text-copied-from-the-log-can-be-edited ()
  (agent-q-test-with-chat
    (agent-q-test-event :text :text "copy me")
    (kill-ring-save (agent-q-test-find "copy me") (+ (point) 7))
    (goto-char (point-max))
    (yank)
    (delete-char -1)
    (should (equal (agent-q-prompt-text) "copy m"))
    (should-not (text-properties-at agent-q-prompt-start))))

(ert-deftest agent-q-chat-breaks-long-lines-for-display-only ()
  (agent-q-test-with-chat
    (let* ((long (make-string 30001 ?x))
           (text (concat "ab\n" long "\ncd\n" long)))
      (agent-q-test-event :text :text (substring text 0 9000))
      (agent-q-test-event :text :text (substring text 9000 40000))
      (agent-q-test-event :text :text (substring text 40000))
      (let ((start (agent-q-test-find "ab\nx")))
        (should (equal (filter-buffer-substring start agent-q-render-end) text))
        (while (< (point) agent-q-render-end)
          (should (<= (- (line-end-position) (point))
                      agent-q-render-line-limit))
          (forward-line 1))))))

;;;; Streaming

(ert-deftest agent-q-chat-jumps-a-long-way-to-the-end-and-moves-no-reader ()
  (agent-q-test-with-chat
    (let ((chat (current-buffer))
          (lines (mapconcat (lambda (number) (format "Line %d.\n" number))
                            (number-sequence 1 300) "")))
      (save-window-excursion
        (switch-to-buffer chat)
        (goto-char (point-max))
        (agent-q-test-event :text :text lines)
        (should (< (window-body-height)
                   (count-lines (point-min) (window-start))))
        (should (<= (count-lines (window-start) (point)) (window-body-height)))
        (goto-char (agent-q-test-find "Line 100"))
        (set-window-start nil (point) t)
        (agent-q-test-event :text :text lines)
        (should (= (window-start) (point)))
        (should (looking-at "Line 100"))))))

(ert-deftest agent-q-chat-streams-whatever-buffer-is-current ()
  (agent-q-test-with-chat
    (goto-char (agent-q-test-find "Ask"))
    (let ((chat (current-buffer)) (session agent-q-session-number))
      (with-temp-buffer
        (insert "mine")
        (dolist (piece '("one " "two\n" "three"))
          (agent-q-events-dispatch
           (list :type :text :session session :text piece)))
        (should (equal (buffer-string) "mine")))
      (should (eq (current-buffer) chat))
      (should (string-suffix-p "one two\nthree" (agent-q-test-log)))
      (should (looking-at "Ask")))))

(ert-deftest agent-q-chat-point-at-the-prompt-stays-in-the-typed-text ()
  (agent-q-test-with-chat
    (insert "typing")
    (backward-char 3)
    (agent-q-test-event :text :text "streamed\nlines\n")
    (agent-q-test-event :call-proposed :call 1 :tool "t" :arguments "{}")
    (should (looking-at "ing\\'"))
    (should (equal (agent-q-prompt-text) "typing"))))

(ert-deftest agent-q-chat-a-window-keeps-its-own-point ()
  (agent-q-test-with-chat
    (agent-q-test-event :text :text "first line\nsecond line\n")
    (let ((reader (split-window)) (place (agent-q-test-find "second")))
      (set-window-point reader place)
      (goto-char (point-max))
      (dotimes (_ 50)
        (agent-q-test-event :text :text "more\n"))
      (should (= (window-point reader) place))
      (should (= (window-point) (point-max))))))

(ert-deftest agent-q-chat-streamed-text-does-not-pile-up-properties ()
  (agent-q-test-with-chat
    (agent-q-test-event :text :text "start ")
    (let ((before (length (object-intervals (current-buffer)))))
      (dotimes (_ 200)
        (agent-q-test-event :text :text "word \n"))
      (should (<= (length (object-intervals (current-buffer))) before)))))

(ert-deftest agent-q-chat-a-window-that-has-become-larger-is-filled ()
  "As when a list of completions goes away: the log is not left out of sight."
  (agent-q-test-with-chat
    (dotimes (number 60)
      (agent-q-render-notice (format "line %d" number)))
    (goto-char (point-max))
    (cl-flet ((larger () (run-hook-with-args 'window-size-change-functions (selected-window))))
      (set-window-start nil (line-beginning-position) t)
      (larger)
      (should (= (window-body-height) (count-lines (window-start) (point))))
      ;; A window that is full stays, and so does one in which the log is read.
      (let ((start (window-start)))
        (larger)
        (should (= start (window-start))))
      (agent-q-test-find "line 30")
      (set-window-start nil (point) t)
      (larger)
      (should (= (window-start) (point))))))

;;;; Undo

(ert-deftest agent-q-chat-undo-is-about-the-prompt-only ()
  (agent-q-test-with-chat
    (buffer-enable-undo)
    (insert "one")
    (undo-boundary)
    (agent-q-test-event :text :text "streamed ")
    (insert " two")
    (undo-boundary)
    (delete-region (- (point) 3) (point))
    (undo-boundary)
    (agent-q-test-event :text :text "more")
    (agent-q-test-event :call-proposed :call 1 :tool "t" :arguments "{}")
    (let ((log (agent-q-test-log)))
      (setq last-command nil)
      (undo)
      (should (equal (agent-q-prompt-text) "one two"))
      (agent-q-test-event :text :text "and more")
      (setq last-command 'undo)
      (undo-more 1)
      (should (equal (agent-q-prompt-text) "one"))
      (should (equal (agent-q-test-log) (concat log "\nand more"))))))

;;;; The prompt

(ert-deftest agent-q-chat-empty-input-is-not-sent ()
  (agent-q-test-with-chat
    (insert "  \n ")
    (agent-q-chat-send)
    (should (equal (current-message) nil))
    (should-not (agent-q-chat-view-header-busy-p))
    (should (equal (agent-q-prompt-text) "  \n "))))

(ert-deftest agent-q-chat-history-gives-back-the-draft ()
  (agent-q-test-with-chat
    (dolist (text '("one" "two" "two"))
      (agent-q-prompt-replace text)
      (agent-q-prompt-take))
    (insert "draft")
    (agent-q-prompt-previous 1)
    (should (equal (agent-q-prompt-text) "two"))
    (agent-q-prompt-previous 1)
    (should (equal (agent-q-prompt-text) "one"))
    (should-error (agent-q-prompt-previous 1) :type 'user-error)
    (agent-q-prompt-next 2)
    (should (equal (agent-q-prompt-text) "draft"))
    (should-error (agent-q-prompt-next 1) :type 'user-error)
    (agent-q-prompt-previous 2)
    (agent-q-prompt-take)
    ;; After a send, the history begins with what was sent.
    (agent-q-prompt-previous 1)
    (should (equal (agent-q-prompt-text) "one"))))

(ert-deftest agent-q-chat-history-is-bounded ()
  (agent-q-test-with-chat
    (let ((agent-q-history-max 3))
      (dotimes (number 10)
        (agent-q-prompt-replace (format "message %d" number))
        (agent-q-prompt-take)))
    (agent-q-prompt-previous 3)
    (should (equal (agent-q-prompt-text) "message 7"))
    (should-error (agent-q-prompt-previous 1) :type 'user-error)))

;;;; Items

(defun agent-q-chat-test--call (number &rest properties)
  "Tell the current chat of the finished call NUMBER with PROPERTIES."
  (agent-q-test-event :call-proposed :call number :tool "describe_symbol"
                      :arguments "{\"symbol\":\"mapcar\"}")
  (agent-q-test-event :call-started :call number)
  (apply #'agent-q-test-event :call-finished :call number
         (append properties '(:outcome :succeeded :content "A function\nof lists"
                              :milliseconds 12))))

(ert-deftest agent-q-chat-a-call-is-one-line-that-unfolds ()
  (agent-q-test-with-chat
    (agent-q-chat-test--call 1)
    (agent-q-test-event :text :text "It maps.")
    (should (string-match-p "^. describe_symbol mapcar \\S-+ A function 12 ms\n"
                            (agent-q-test-log)))
    (should-not (string-match-p "of lists" (buffer-string)))
    (let ((folded (agent-q-test-log)))
      (agent-q-test-find "describe_symbol")
      (agent-q-test-press "TAB")
      (should (string-match-p "^symbol: mapcar\nresult:\nA function\nof lists$"
                              (agent-q-test-log)))
      (should (looking-at "describe_symbol"))
      (agent-q-test-press "TAB")
      (should (equal (agent-q-test-log) folded)))))

(ert-deftest agent-q-chat-what-a-call-makes-stands-under-it ()
  "Whatever was called meanwhile, and in a stored chat, too."
  (let ((events (cl-loop for (key tool after) in '((1 "edit_file") (2 "run_tests") (3 "compile_file" 1)
                                                   (4 "effect/write-file" 3) (5 "compile_form" 1)
                                                   (6 "load_system" 99))
                         collect (list :type :call-proposed :call key :tool tool :after after
                                       :arguments "{}")))
        (tools '("edit_file" "compile_file" "effect/write-file" "compile_form" "run_tests" "load_system")))
    (cl-flet ((shown ()
                (mapcar #'agent-q-call-tool
                        (sort (agent-q-test-calls)
                              (lambda (one other)
                                (< (agent-q-render-item-start one) (agent-q-render-item-start other)))))))
      (agent-q-test-with-chat
        (insert "typed")
        (dolist (event events)
          (apply #'agent-q-test-event (cadr event) (cddr event))
          (should (equal (agent-q-prompt-text) "typed"))
          (should (eobp)))
        (should (equal (shown) tools))
        ;; Each is still drawn where it is, and one that asks comes before what stands below it.
        (agent-q-test-event :call-started :call 2)
        (dolist (key '(2 3))
          (agent-q-test-event :approval :call key :tool "compile_file" :level "dangerous" :arguments "{}"))
        (should (equal 3 (agent-q-call-key (agent-q-call-waiting))))
        (agent-q-test-event :call-finished :call 2 :outcome :succeeded :content "Done" :milliseconds 1)
        (should (string-match-p "^. run_tests .*Done 1 ms\n. load_system" (agent-q-test-log)))
        (agent-q-chat-send-cancel))
      (agent-q-test-with-chat
        (agent-q-chat-history--past-draw events)
        (should (equal (shown) tools))))))

(ert-deftest agent-q-chat-a-call-shows-each-outcome ()
  (agent-q-test-with-chat
    (cl-loop for (outcome content pattern)
             in '((:succeeded "A function" "✓ A function 12 ms$")
                  (:succeeded "" "✓ 12 ms$")
                  (:succeeded "\nNot on the first line\nof lists" "✓ Not on the first line 12 ms$")
                  (:succeeded "Expanded:\n\n(if a\n  b)" "✓ Expanded: (if a b) 12 ms$")
                  (:succeeded "Nothing follows:" "✓ Nothing follows: 12 ms$")
                  (:succeeded "FAILED: 1 of 2 checks passed" "✗ FAILED: 1 of 2 checks passed 12 ms$")
                  (:succeeded "Tests of a/b, /p/a.asd: FAILED: 9 of 12 checks passed, 3 failed, in 4 tests (RT).\nfailed in X"
                              "✗ 3 of 12 failed 12 ms$")
                  (:succeeded "FAILED: 5 of 5 checks passed, 0 failed (RT).\nThe run did not finish:\n  ERROR: no"
                              "✗ 0 of 5 failed, did not finish 12 ms$")
                  (:succeeded "FAILED: 0 of 1 checks passed, 0 failed, 1 skipped (RT)." "✗ FAILED: 0 of 1")
                  (:succeeded "Tests of a/b, /p/a.asd: PASSED: 2 of 2 checks passed, 0 failed (RT)." "✓ PASSED: 2 of 2")
                  (:succeeded "Tests of a, /p/a.asd: Not counted: the tests returned, but made no check of a framework that can be counted (RT).\nOutput:\nSome failed: 2\n"
                              "\\? Some failed: 2 12 ms$")
                  (:failed "Tests of a/b, /p/a.asd: No test ran: none." "✗ No test ran: none. 12 ms$")
                  (:succeeded "=> 3\n=> 4\nOutput:\nfive" "⇒ 3, 4 12 ms$")
                  (:succeeded "=> (1\n    2)" "⇒ (1 2) 12 ms$")
                  (:succeeded "=> NIL\nOutput:\nThe first\nand the second" "✓ The first 12 ms$")
                  (:succeeded "=> NIL\n(Ended in package FOO; ...)" "⇒ NIL 12 ms$")
                  (:failed "No such\nsymbol" "\\S-+ No such 12 ms$")
                  (:failed "Error SB-INT:BAD: no good: 8\nRestarts" "✗ SB-INT:BAD: no good: 8 12 ms$")
                  (:failed "Error: no" "✗ Error: no 12 ms$")
                  (:failed "" "\\S-+ failed 12 ms$")
                  (:denied "User denied tool execution" "denied$")
                  (:denied "User denied tool execution: no\nnever" "denied: no$")
                  (:denied "A user rule denies this call. Rule 1"
                           "denied: A user rule .* Rule 1$")
                  (:cancelled "The user cancelled the turn" "cancelled$"))
             for number from 1
             do (agent-q-chat-test--call number :outcome outcome :content content)
             (goto-char agent-q-render-end)
             (forward-line -1)
             (should (looking-at (concat ". describe_symbol mapcar " pattern))))))

(ert-deftest agent-q-chat-the-last-of-several-forms-gives-the-value ()
  (agent-q-test-with-chat
    (cl-loop for (content pattern)
             in '(("(f)\n=> 1\n(g)\n=> 2\n=> (3\n  4)" "⇒ 2, (3 4)")
                  ("(f)\n=> 1\nOutput:\n=> no value\n(g)\n=> 2" "⇒ 2")
                  ("x\n=> 1\ny\n=> 2\n(Ended in package FOO; ...)" "⇒ 2")
                  ("(f)\n=> 1\n(g)\n=> NIL\nOutput:\nprinted" "✓ printed")
                  ("(f)\n=> 1\n(g)\n=> no values" "⇒ no values")
                  ("Nothing to evaluate" "✓ Nothing to evaluate"))
             for number from 1
             do (agent-q-test-event :call-proposed :call number :tool "eval_form" :arguments "{\"form\":\"(f)\"}")
             (agent-q-test-event :call-finished :call number :outcome :succeeded :content content
                                 :milliseconds 12)
             (goto-char agent-q-render-end)
             (forward-line -1)
             (should (looking-at (format ". eval_form (f) %s 12 ms$" pattern))))))

(ert-deftest agent-q-chat-a-call-that-fails-beside-another-window-leaves-the-prompt ()
  (agent-q-test-with-chat
    (insert "typed")
    (let ((window (selected-window)))
      (split-window)
      (switch-to-buffer-other-window "*scratch*")
      (set-window-point window (point-min))
      (with-current-buffer chat
        (agent-q-chat-test--call 1 :outcome :failed :content "No such symbol")
        (should (string-suffix-p " No such symbol 12 ms\n" (agent-q-test-log)))
        (should (equal (agent-q-prompt-text) "typed"))
        (should (= (point) (point-max)))
        (should (= (window-point window) (point-min)))))))

(ert-deftest agent-q-chat-calls-fit-into-the-narrowest-window-of-a-chat ()
  (save-window-excursion
    (agent-q-test-with-chat
      (switch-to-buffer (current-buffer))
      (let ((narrow (split-window-right 50)))
        (should (= (agent-q-call-width)
                   (1- (min (window-body-width) (window-body-width narrow)))))
        (should (< (agent-q-call-width) (1- (window-body-width))))))))

(ert-deftest agent-q-chat-what-is-unfolded-comes-into-sight ()
  (save-window-excursion
    (agent-q-test-with-chat
      (switch-to-buffer (current-buffer))
      (dotimes (key 30)
        (agent-q-chat-test--call (1+ key) :content "one\ntwo\nthree\nfour"))
      (let ((unfold (lambda (line)
                      (goto-char (window-start))
                      (forward-line line)
                      (agent-q-test-press "TAB")
                      (agent-q-render-item-at (point)))))
        (set-window-start nil (agent-q-render-item-start (gethash 1 agent-q-call-table)))
        (let ((last (funcall unfold (1- (window-text-height)))))
          (should (< (count-screen-lines (window-start) (agent-q-render-item-end last))
                     (window-text-height))))
        ;; What doesn't fit begins at the top.
        (let ((long (gethash 3 agent-q-call-table)))
          (agent-q-test-event :call-finished :call 3 :outcome :succeeded :milliseconds 1
                              :content (mapconcat #'number-to-string (number-sequence 1 200) "\n"))
          (set-window-start nil (agent-q-render-item-start (gethash 1 agent-q-call-table)))
          (should (eq long (funcall unfold 2)))
          (should (= (window-start) (agent-q-render-item-start long))))))))

;; With letters of different widths, blanks don't line up.
(ert-deftest agent-q-chat-the-first-lines-line-up ()
  (agent-q-test-with-chat
    (dolist (start '("Image  " "Try    " "       [/list_buffers]"))
      (agent-q-test-find start)
      (goto-char (+ (point) 6))
      (should (equal '(space :align-to 7) (get-text-property (point) 'display)))
      (should-not (get-text-property (1+ (point)) 'display)))))

(defun agent-q-chat-test--seen ()
  "Return what is seen of this chat's log."
  (let ((place (point-min)) (text ""))
    (while (< place agent-q-render-end)
      (let ((next (next-single-char-property-change place 'invisible nil agent-q-render-end)))
        (unless (invisible-p place)
          (setq text (concat text (buffer-substring-no-properties place next))))
        (setq place next)))
    text))

(ert-deftest agent-q-chat-the-line-of-a-failed-call-leaves-its-room-to-the-reason ()
  (save-window-excursion
    (agent-q-test-with-chat
      (let ((fail (lambda (key arguments why)
                    (agent-q-test-event :call-proposed :call key :tool "edit" :arguments arguments)
                    (agent-q-test-event :call-finished :call key :outcome :failed :milliseconds 3
                                        :content why)))
            (edit "{\"path\":\"src/a.lisp\",\"original\":\"(in-package :a) (defun f (x) x)\"}"))
        (cl-letf (((symbol-function 'agent-q-call-width) (lambda () 79)))
          (funcall fail 1 edit "'src/a.lisp' was changed since it was last read; nothing was done. Read.")
          (funcall fail 2 edit "It can't be written: the disk is full, or so it seems, and this is long.")
          (funcall fail 3 edit "No."))
        (should (string-match-p "edit ✗ 'src/a.lisp' was changed since it was last read; nothing was do"
                                (agent-q-test-log)))
        (should (string-match-p "edit src/a.lisp ✗ It can't be written: the disk is full, or"
                                (agent-q-test-log)))
        (should (string-match-p "edit src/a.lisp original=(in-package :a).*✗ No\\. 3 ms"
                                (agent-q-test-log)))))))

;; A list of ten lines that say the same hides what is different.
(ert-deftest agent-q-chat-equal-failures-have-one-line ()
  (save-window-excursion
    (agent-q-test-with-chat
      (switch-to-buffer (current-buffer))
      (let ((why "No Lisp image is connected. The user starts one with M-x sly or M-x slime; ask again then.")
            (names '("car" "cdr" "let*" "let" "mapcar"))
            (started nil))
        (cl-flet ((propose (key name)
                    (agent-q-test-event :call-proposed :call key :tool "describe_symbol"
                                        :arguments (format "{\"name\":\"%s\"}" name)))
                  (fail (key content)
                    (agent-q-test-event :call-finished :call key :outcome :failed :milliseconds 3
                                        :content content))
                  (lines () (seq-drop-while (lambda (line) (not (string-match-p "\\`[▸▾]" line)))
                                            (split-string (agent-q-chat-test--seen) "\n" t))))
          (cl-letf (((symbol-function 'agent-q-call-width) (lambda () 99)))
            (cl-loop for name in names for key from 1 do (propose key name))
            ;; They end in any order.
            (dolist (key '(2 4 3 5 1)) (fail key why))
            (should (equal '("▸ describe_symbol car ✗ 5 times: No Lisp image is connected [Connect]")
                           (lines)))
            (propose 6 "car")
            (fail 6 "No symbol is called car")
            (propose 7 "car")
            (fail 7 why)
            (should (equal '("▸ describe_symbol car ✗ 5 times: No Lisp image is connected [Connect]"
                             "▸ describe_symbol car ✗ No symbol is called car 3 ms"
                             "▸ describe_symbol car ✗ No Lisp image is connected 3 ms [Connect]")
                           (lines)))
            ;; Unfolded, it has them all.
            (goto-char (agent-q-render-item-start (gethash 1 agent-q-call-table)))
            (agent-q-test-press "TAB")
            (should (equal names
                           (seq-filter #'identity
                                       (mapcar (lambda (line)
                                                 (and (string-match "\\`name: \\(.+\\)" line)
                                                      (match-string 1 line)))
                                               (lines)))))
            (agent-q-test-press "TAB")
            (should (= 3 (length (lines))))
            (agent-q-test-find "[Connect]")
            (cl-letf (((symbol-function 'agent-q-connection-connections) #'ignore)
                      ((symbol-function 'agent-q-connection-installed) (lambda () '(sly)))
                      ((symbol-function 'call-interactively)
                       (lambda (command &rest _) (setq started command))))
              (funcall (key-binding (kbd "RET"))))
            (should (eq started 'sly))))))))

(ert-deftest agent-q-chat-a-write-that-changes-nothing-is-no-failure ()
  (agent-q-test-with-chat
    (agent-q-test-event :call-proposed :call 1 :tool "write_file" :arguments "{\"path\":\"a.txt\"}")
    (agent-q-test-event :call-finished :call 1 :outcome :failed :milliseconds 3
                        :content "'a.txt' already has exactly this content; nothing was changed.")
    (should-not (string-search "✗" (agent-q-test-log)))
    (goto-char (point-min))
    (should-not (text-property-search-forward 'face 'agent-q-failure t))))

(ert-deftest agent-q-chat-the-line-of-a-failed-call-says-why-within-the-window ()
  (agent-q-test-with-chat
    (set-window-buffer (split-window-right 50) (get-buffer-create "*scratch*"))
    (agent-q-test-event :call-proposed :call 1 :tool "propose_file_edit"
                        :arguments (agent-q-json-encode
                                    `(:path "three.lisp" :original ,(make-string 900 ?o))))
    (agent-q-test-event :call-finished :call 1 :outcome :failed :milliseconds 3
                        :content "\
'three.lisp' was changed on disk since Emacs read it; nothing was changed.
Ask the user to revert or save the buffer.")
    (agent-q-test-find "propose_file_edit")
    (should (looking-at "propose_file_edit .*'three\\.lisp' was .* 3 ms$"))
    (end-of-line)
    (should (<= (current-column) (window-max-chars-per-line)))
    ;; The whole of it stands above the long texts.
    (agent-q-test-press "TAB")
    (should (string-match-p
             (concat "^error:\n'three\\.lisp' was changed on disk since Emacs read it; nothing was changed\\."
                     "\nAsk the user to revert or save the buffer\\.\npath: three\\.lisp\noriginal: oo")
             (agent-q-test-log)))))

(ert-deftest agent-q-chat-the-line-of-a-call-fits-with-what-it-came-to ()
  (agent-q-test-with-chat
    (set-window-buffer (split-window-right 50) (get-buffer-create "*scratch*"))
    (agent-q-test-event :call-proposed :call 1 :tool "grep_project"
                        :arguments (agent-q-json-encode `(:pattern ,(make-string 90 ?o))))
    (agent-q-test-event :call-finished :call 1 :outcome :succeeded :milliseconds 3
                        :content (concat "Found 12 matches in " (make-string 90 ?f)))
    (agent-q-test-find "grep_project")
    (should (looking-at "grep_project ooo.* ✓ Found 12 .* 3 ms$"))
    (end-of-line)
    (should (<= (current-column) (window-max-chars-per-line)))))

(ert-deftest agent-q-chat-a-long-result-is-cut-and-shown-on-demand ()
  (agent-q-test-with-chat
    (let ((content (concat (make-string 100000 ?a) "the end")))
      (agent-q-chat-test--call 1 :content content)
      (agent-q-test-find "describe_symbol")
      (agent-q-test-press "TAB")
      (should (< (buffer-size) 20000))
      (agent-q-test-find "RET shows all")
      (save-window-excursion
        (agent-q-test-press "RET")
        (should (equal (with-current-buffer "*agent-q text*" (buffer-string))
                       content))))))

(ert-deftest agent-q-chat-an-item-keeps-point-when-it-is-drawn-again ()
  (agent-q-test-with-chat
    (agent-q-test-event :call-proposed :call 1 :tool "tool" :arguments "{}")
    (agent-q-test-find "ool")
    (agent-q-test-event :call-started :call 1)
    (should (looking-at "ool"))
    (agent-q-test-event :call-finished :call 1 :outcome :failed :content "No"
                        :milliseconds 1)
    (should (looking-at "ool"))))

(ert-deftest agent-q-chat-tab-and-backtab-go-from-item-to-item ()
  (agent-q-test-with-chat
    (agent-q-chat-test--call 1)
    (agent-q-test-event :text :text "between")
    (agent-q-chat-test--call 2)
    (goto-char (point-max))
    (let (places)
      (dotimes (_ 2)
        (agent-q-chat-view-previous-item)
        (push (point) places))
      (should-error (agent-q-chat-view-previous-item) :type 'user-error)
      (should (= (point) (car places)))
      (agent-q-chat-view-next-item)
      (should (= (point) (cadr places)))
      (agent-q-chat-view-next-item)
      (should (= (point) (point-max))))))

(ert-deftest agent-q-chat-tab-goes-to-buttons-and-links ()
  (agent-q-test-with-chat
    (agent-q-test-event :turn-started :turn 1 :text "q")
    (agent-q-test-event :text :text "See https://example.org/x for it.\n\n")
    (agent-q-chat-test--call 1)
    (agent-q-test-event :turn-ended :outcome :failed :message "No.")
    (goto-char (point-max))
    (let (stops)
      (dotimes (_ 3)
        (agent-q-chat-view-previous-item)
        (push (buffer-substring-no-properties (point) (min (point-max) (+ 5 (point)))) stops))
      (should (equal (nth 2 stops) "[Try "))
      (should (string-prefix-p "▸ " (nth 1 stops)))
      (should (equal (nth 0 stops) "https"))
      ;; Forward they come in the same order, and then the prompt.
      (agent-q-chat-view-tab)
      (should (looking-at "▸ "))
      (agent-q-chat-view-next-item)
      (should (looking-at "\\[Try again"))
      (agent-q-chat-view-next-item)
      (should (= (point) (point-max))))))

(ert-deftest agent-q-chat-all-unfolds-so-that-it-can-be-searched ()
  (agent-q-test-with-chat
    (agent-q-test-event :reasoning :text "a needle of thought")
    (agent-q-chat-test--call 1)
    (agent-q-test-event :call-finished :call 1 :outcome :succeeded
                        :content "A result\nwith a needle" :milliseconds 1)
    (should-not (agent-q-test-shows "needle"))
    (agent-q-test-event :approval :call 2 :tool "eval_form" :level "dangerous"
                        :reason "runs programs" :arguments "{\"form\":\"(f)\"}")
    (let ((request (agent-q-call-waiting)) (point (point-max)))
      (goto-char point)
      (agent-q-chat-view-toggle-all)
      (should (agent-q-test-shows "needle of thought"))
      (should (agent-q-test-shows "with a needle"))
      (should (= (point) (point-max)))
      ;; A request is answered as before.
      (should (agent-q-call-open-p request))
      (agent-q-chat-view-toggle-all)
      (should-not (agent-q-test-shows "needle")))))

(ert-deftest agent-q-chat-imenu-has-the-turns ()
  (agent-q-test-with-chat
    (dolist (text '("first thing\nand more" "second"))
      (agent-q-test-event :turn-started :turn 1 :text text)
      (agent-q-test-event :text :text "answer")
      (agent-q-test-event :turn-ended :outcome :finished))
    (let ((index (funcall imenu-create-index-function)))
      (should (equal (mapcar #'car index) '("first thing" "second")))
      (goto-char (cdr (cadr index)))
      (should (looking-at "> second")))))

(ert-deftest agent-q-chat-turns-can-be-visited ()
  (agent-q-test-with-chat
    (dolist (text '("first" "second"))
      (agent-q-test-event :turn-started :turn 1 :text text)
      (agent-q-test-event :text :text "answer")
      (agent-q-test-event :turn-ended :outcome :finished))
    (agent-q-chat-view-previous-turn)
    (should (looking-at "> second"))
    (agent-q-chat-view-previous-turn)
    (should (looking-at "> first"))
    (agent-q-chat-view-next-turn)
    (should (looking-at "> second"))))

(ert-deftest agent-q-chat-long-reasoning-is-cut-and-shown-on-demand ()
  (agent-q-test-with-chat
    (agent-q-test-event :reasoning :text "It begins. ")
    (agent-q-test-find "Thinking")
    (agent-q-test-press "RET")
    (dotimes (number 3000)
      (agent-q-test-event :reasoning :text (format "thought %d. " number)))
    (should (< (buffer-size) 20000))
    (agent-q-test-find "RET shows all")
    (save-window-excursion
      (agent-q-test-press "RET")
      (with-current-buffer "*agent-q text*"
        (should (string-prefix-p "It begins. thought 0. " (buffer-string)))
        (should (string-suffix-p "thought 2999. " (buffer-string)))))))

(ert-deftest agent-q-chat-reasoning-is-folded-and-grows ()
  (agent-q-test-with-chat
    (agent-q-test-event :reasoning :text "Let me ")
    (agent-q-test-event :reasoning :text "think.")
    (should (string-match-p "Thinking for 1 s$" (agent-q-test-log)))
    (agent-q-test-find "Thinking")
    (agent-q-test-press "RET")
    (should (string-match-p "^Let me think\\.$" (agent-q-test-log)))
    (agent-q-test-event :text :text "Done")
    (should (string-match-p "Thought for 1 s\nLet me think\\.\n\nDone" (agent-q-test-log)))
    (agent-q-test-event :reasoning :text "Again")
    (should (string-match-p "Done\n.*Thinking for 1 s\n\\'" (agent-q-test-log)))
    ;; It is over with the turn, too, and its folded line still unfolds.
    (agent-q-test-event :turn-ended :outcome :finished)
    (should (string-match-p "Done\n.*Thought for 1 s\n\\'" (agent-q-test-log)))
    (goto-char (point-max))
    (re-search-backward "Thought")
    (agent-q-test-press "RET")
    (should (string-match-p "^Again$" (agent-q-test-log)))))

(ert-deftest agent-q-chat-return-presses-the-button-before-it-and-says-where-it-goes ()
  (agent-q-test-with-chat
    (let ((pressed 0) (said nil))
      (agent-q-render-button "[Undo this]" (lambda () (cl-incf pressed)))
      (agent-q-test-find "[Undo this]")
      (end-of-line)
      (agent-q-test-press "RET")
      (should (= pressed 1))
      (forward-line)
      (agent-q-render-notice "Nothing is here.")
      (agent-q-test-find "Nothing is here")
      (cl-letf (((symbol-function 'message) (lambda (text &rest _) (setq said text))))
        (agent-q-test-press "RET"))
      (should (agent-q-prompt-p))
      (should (equal said "Nothing to open there; this is the prompt")))))

;;;; The end of a turn

(ert-deftest agent-q-chat-a-failed-turn-keeps-what-was-received ()
  (agent-q-test-with-chat
    (agent-q-test-event :turn-started :turn 1 :text "q")
    (agent-q-test-event :text :text "half an ans")
    (agent-q-test-event :call-proposed :call 1 :tool "tool" :arguments "{}")
    (agent-q-test-event :turn-ended :outcome :failed :message "The line was cut.")
    (should (string-match-p "half an ans\n. tool cancelled\nThe line was cut\\.\n\\[Try again\\]\n\\'"
                            (agent-q-test-log)))
    (agent-q-test-find "The line")
    (should (eq (get-text-property (point) 'face) 'agent-q-failure))
    (should (agent-q-test-idle-p))))

(ert-deftest agent-q-chat-retries-share-a-line ()
  (agent-q-test-with-chat
    (let ((retry (lambda (attempt seconds)
                   (agent-q-test-event
                    :retrying :seconds seconds :attempt attempt :attempts 2
                    :reason "h:1: server error (500). Try again later. It says: <html><body>Internal\nserver error</body></html>"))))
      (funcall retry 1 60)
      (should (agent-q-test-shows
               "▸ sending again in 60 s (1 of 2), C-c C-k stops: h:1: server error (500)."))
      (funcall retry 2 0.9)
      (should (agent-q-test-shows
               "▸ sending again (2 of 2): h:1: server error (500). It says: Inter"))
      (should (= 1 (how-many "of 2)" (point-min) (point-max))))
      (agent-q-test-find "sending")
      (agent-q-render-toggle)
      (should (agent-q-test-shows "</body></html>\n"))
      (agent-q-render-toggle)
      ;; An answer that began is behind it; another request has a line of its own.
      (agent-q-test-event :text :text "Yes.")
      (should (agent-q-test-shows "▸ sent again (2 of 2): h:1: server error"))
      (funcall retry 1 60)
      (should (string-match-p "Yes\\.\n+▸ sending again in 60 s (1 of 2)" (agent-q-test-log))))))

(ert-deftest agent-q-chat-counts-down-to-a-retry ()
  (agent-q-test-with-chat
    (agent-q-test-event :turn-started :turn 1 :text "q")
    (agent-q-test-event :retrying :seconds 60 :attempt 1 :attempts 2 :reason "Down.")
    (should (agent-q-test-shows "in 60 s"))
    (setf (agent-q-chat-commands-backoff-due agent-q-chat-commands--backoff-last) (time-add nil 39.5))
    (agent-q-chat--tick (current-buffer))
    (should (agent-q-test-shows "in 40 s"))
    (setf (agent-q-chat-commands-backoff-due agent-q-chat-commands--backoff-last) (time-add nil -1))
    (agent-q-chat--tick (current-buffer))
    (should (agent-q-test-shows "sent again (1 of 2): Down."))))

(ert-deftest agent-q-chat-a-request-that-waited-when-its-turn-ended-is-not-sent-again ()
  (agent-q-test-with-chat
    (agent-q-test-event :turn-started :turn 1 :text "q")
    (agent-q-test-event :retrying :seconds 60 :attempt 1 :attempts 2 :reason "Down.")
    (agent-q-test-event :turn-ended :outcome :cancelled)
    (should (agent-q-test-shows "▸ not sent again: Down.\n"))
    (agent-q-test-event :turn-started :turn 2 :text "q")
    (agent-q-test-event :retrying :seconds 60 :attempt 2 :attempts 2 :reason "Down again.")
    (agent-q-test-event :turn-ended :outcome :failed :message "Down.")
    (should (agent-q-test-shows "▸ sent again (2 of 2): Down again.\n"))))

(ert-deftest agent-q-chat-header-line-follows-the-session ()
  (agent-q-test-with-chat
    (should (string-match-p "\\` No model" (agent-q-chat-view-header-line)))
    (agent-q-test-event :turn-started :turn 1 :text "q")
    (agent-q-test-event :state :state :streaming)
    (agent-q-test-event :usage :input-tokens 1200 :output-tokens 34)
    (should (string-match-p "Writing . 0 s .*1200.*34" (agent-q-chat-view-header-line)))
    (should-not (string-match-p "cached" (agent-q-chat-view-header-line)))
    (agent-q-test-event :usage :input-tokens 800 :output-tokens 0 :cache-read-tokens 500
                        :cache-write-tokens 0)
    (should (string-match-p "2000 (25% cached) .*34" (agent-q-chat-view-header-line)))
    (should (string-match-p "2000 (25%% cached) .*34" (agent-q-chat-view-header-shown 200)))
    (agent-q-test-event :reasoning :text "hm")
    (should (string-match-p "\\` Thinking" (agent-q-chat-view-header-line)))
    (agent-q-test-event :text :text "so")
    (should (string-match-p "\\` Writing" (agent-q-chat-view-header-line)))
    (should agent-q-chat--timer)
    (agent-q-test-event :turn-ended :outcome :finished)
    (should (string-match-p "No model.*2000.*34\\( \\|\\'\\)" (agent-q-chat-view-header-line)))
    (should-not agent-q-chat--timer)))

(ert-deftest agent-q-chat-header-line-warns-of-dangerous-tools-that-run-unasked ()
  (agent-q-test-with-chat
    (should-not (string-match-p "unasked" (agent-q-chat-view-header-line)))
    (let ((agent-q-tool-levels '(("write_file" . :cautious) ("eval_form" . :safe)
                                 ("describe_symbol" . :dangerous))))
      (agent-q-chat-view-header-update)
      (should (string-match-p "write_file runs unasked" (agent-q-chat-view-header-line)))
      (setq agent-q-tool-levels '(("write_file" . :cautious) ("delete_file" . safe)))
      (agent-q-chat-view-header-update)
      (should (string-match-p "2 dangerous tools run unasked" (agent-q-chat-view-header-line))))
    (agent-q-chat-view-header-update)
    (should-not (string-match-p "unasked" (agent-q-chat-view-header-line)))))

;;;; Events

(ert-deftest agent-q-events-an-error-in-one-event-does-not-stop-the-next ()
  (agent-q-test-with-chat
    (agent-q-test-event :call-finished :call 1 :outcome 'nonsense :content 5)
    (agent-q-test-event :usage :input-tokens "many")
    (agent-q-test-event :text :text "still here")
    (should (string-suffix-p "still here" (agent-q-test-log)))
    (should (string-match-p "Event :usage failed"
                            (with-current-buffer "*agent-q-log*"
                              (buffer-string))))))

(ert-deftest agent-q-user-buffers-are-those-that-somebody-works-in ()
  (let ((buffers (mapcar (lambda (name) (cons name (get-buffer-create name)))
                         '("mine" "*scratch*" "*Messages*" " hidden" "*agent-q text*" "*Completions*"
                           "*agent-q: named*" "gone"))))
    (unwind-protect
        (agent-q-test-with-chat
          (kill-buffer "gone")
          (should (equal '("mine" "*scratch*" "*Messages*")
                         (mapcar #'car (seq-filter (lambda (it) (agent-q-session-user-buffer-p (cdr it)))
                                                   buffers))))
          ;; Whatever it is called.
          (rename-buffer "a chat" t)
          (should-not (agent-q-session-user-buffer-p chat))
          (should-not (agent-q-session-user-buffer-p (window-buffer (minibuffer-window)))))
      (dolist (name '("mine" " hidden" "*agent-q text*" "*Completions*" "*agent-q: named*"))
        (kill-buffer name)))))

(ert-deftest agent-q-events-last-user-buffer-is-not-the-chat ()
  (let ((mine (generate-new-buffer "mine")))
    (unwind-protect
        (save-window-excursion
          (switch-to-buffer mine)
          (agent-q-test-with-chat
            (should (eq (window-buffer) chat))
            (should (eq (agent-q-session-user-last-buffer) mine))
            (switch-to-buffer (get-buffer-create " hidden"))
            (should (eq (agent-q-session-user-last-buffer) mine))))
      (kill-buffer mine))))

;;;; Tests of saving a chat's buffer

;; What saves, renames or copies other buffers, or gives them another mode, is tried on a chat whose
;; turn is running.

(defmacro agent-q-chat-test--with-turn (&rest body)
  "Run BODY in a chat whose turn waits for an answer to a request.
The chat must be as good as before then, and its turn goes on to its end."
  (declare (indent 0) (debug t))
  `(agent-q-test-with-tools
       ((agent-q-test-tool "t_ask" (lambda (_) "Asked.") :safety-level :dangerous))
     (agent-q-test-with-model
         (agent-q-test-script '((("go") ("t_ask")) (("Asked.") "**All** done.")))
       (agent-q-test-with-chat
         (agent-q-test-send "go")
         (agent-q-test-arm)
         (let ((name (buffer-name))
               (folder default-directory))
           ,@body
           (should (equal (list name folder 'agent-q-chat-mode nil)
                          (list (buffer-name) default-directory major-mode
                                buffer-file-name))))
         (agent-q-test-answer "y")
         (agent-q-test-until (agent-q-test-idle-p))
         (should (string-match-p "All.* done" (agent-q-test-log)))))))

(defun agent-q-chat-test--new (name)
  "Return the name of a file NAME that is not there yet."
  (expand-file-name name (make-temp-file (expand-file-name "talk" agent-q-test-directory) t)))

(defun agent-q-chat-test--text (file)
  "Return the text of FILE."
  (with-temp-buffer
    (insert-file-contents file)
    (buffer-string)))

(ert-deftest agent-q-chat-file-saving-writes-a-transcript ()
  (dolist (name '("talk.txt" "talk.md" "talk.lisp" "talk"))
    (let ((file (agent-q-chat-test--new name)))
      (agent-q-chat-test--with-turn
        (goto-char (point-max))
        (insert "a draft")
        (write-file file)
        (should (string-match-p "^> go\n" (agent-q-chat-test--text file)))
        (should-not (string-match-p "a draft" (agent-q-chat-test--text file)))
        (should (equal (agent-q-prompt-text) "a draft"))
        (agent-q-prompt-replace "")))))

(ert-deftest agent-q-chat-file-a-transcript-is-written-again ()
  (let ((file (agent-q-chat-test--new "talk.md")))
    (agent-q-test-with-model (agent-q-test-script '((("go") "**All** done.") (("more") "More.")))
      (agent-q-test-with-chat
        (agent-q-test-ask "go")
        ;; The first time it asks for the file.
        (cl-letf (((symbol-function 'read-file-name) (lambda (&rest _) file)))
          (call-interactively (key-binding (kbd "C-x C-s"))))
        (should (string-match-p "\\*\\*All\\*\\* done" (agent-q-chat-test--text file)))
        (agent-q-test-ask "more")
        (call-interactively (key-binding (kbd "C-x C-s")))
        (should (string-match-p "^More" (agent-q-chat-test--text file)))))))

(ert-deftest agent-q-chat-file-a-name-of-a-file-is-not-kept ()
  (agent-q-chat-test--with-turn
    (set-visited-file-name (agent-q-chat-test--new "talk.org"))))

(ert-deftest agent-q-chat-file-another-mode-is-refused ()
  (agent-q-chat-test--with-turn
    (dolist (mode '(text-mode fundamental-mode normal-mode agent-q-chat-mode lisp-mode))
      (should-error (funcall mode) :type 'user-error))))

(ert-deftest agent-q-chat-file-a-chat-is-not-copied ()
  (agent-q-chat-test--with-turn
    (should-error (clone-indirect-buffer nil nil))
    (should-error (clone-buffer))))

(provide 'agent-q-chat-test)
;;; agent-q-chat-test.el ends here
