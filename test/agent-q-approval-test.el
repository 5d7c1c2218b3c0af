;;; agent-q-approval-test.el --- Tests of answering approval requests  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Editing arguments, several calls at once, viewing and the mouse, with tools
;; of the test's own on the real core.  Rules are in agent-q-rules-test.el.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-registry)

(defvar agent-q-approval-test--ran nil
  "The arguments with which the dangerous tool of a test ran, latest first.")

(defconst agent-q-approval-test--three
  (agent-q-json-encode
   `(:turns [(:steps [(:tool_calls
                       ,(vconcat (mapcar (lambda (text)
                                           `(:name "t_erase" :arguments (:text ,text :count 2)))
                                         '("a" "b" "c"))))])
             (:steps [(:text "Done.")])]))
  "A model that wants three dangerous calls at once.")

(defmacro agent-q-approval-test--with-chat (&rest body)
  "Run BODY in a chat whose model wants three dangerous calls."
  (declare (indent 0) (debug t))
  `(let ((agent-q-approval-test--ran nil)
         (agent-q-approval-handler nil))
     (agent-q-test-with-tools
         ((agent-q-define-tool
           "t_erase" "Erase."
           '((:name "text" :type :string :description "What")
             (:name "count" :type :integer :description "How often"))
           :required '("text") :safety-level :dangerous
           :handler (lambda (arguments)
                      (push (cons (gethash "text" arguments) (gethash "count" arguments))
                            agent-q-approval-test--ran)
                      "erased")))
       (agent-q-test-with-model agent-q-approval-test--three
         (agent-q-test-with-chat
           (agent-q-test-send "go")
           (agent-q-test-until (= 3 (length (agent-q-call-all-waiting))))
           ,@body)))))

(defun agent-q-approval-test--arm-all ()
  "Unfold all calls that wait, and let them be answered."
  (dolist (call (agent-q-call-all-waiting))
    (unless (agent-q-call-full-p call)
      (goto-char (agent-q-render-item-start call))
      (agent-q-test-press "TAB")))
  (mapc #'agent-q-test-see (agent-q-call-all-waiting))
  (mapc #'agent-q-render-update-item (agent-q-call-all-waiting)))

(defun agent-q-approval-test--ended ()
  "Wait until the turn is over; return what ran, first one first."
  (agent-q-test-until (agent-q-test-idle-p))
  (reverse agent-q-approval-test--ran))

(ert-deftest agent-q-approve-all-that-were-seen-run-together ()
  (agent-q-approval-test--with-chat
    (agent-q-approval-test--arm-all)
    (agent-q-approval-gate-disarm (car (last (agent-q-call-all-waiting))))
    (goto-char (agent-q-render-item-start (agent-q-call-waiting)))
    (agent-q-test-press "Y")
    ;; The one that nobody has seen still waits, and point is on it.
    (should (= 1 (length (agent-q-call-all-waiting))))
    (should (eq (agent-q-render-item-at (point)) (agent-q-call-waiting)))
    (agent-q-test-answer "n")
    (should (equal (agent-q-approval-test--ended) '(("a" . 2) ("b" . 2))))))

(ert-deftest agent-q-approve-all-can-be-denied-together ()
  (agent-q-approval-test--with-chat
    (agent-q-test-answer "N")
    (should-not (agent-q-call-all-waiting))
    (should-not (agent-q-approval-test--ended))))

(ert-deftest agent-q-approve-after-an-answer-point-is-on-the-next-request ()
  (agent-q-approval-test--with-chat
    (let ((first (agent-q-test-answer "y")))
      (should-not (eq (agent-q-render-item-at (point)) first))
      (should (eq (agent-q-render-item-at (point)) (agent-q-call-waiting)))
      ;; It was not there to be read before, so the next key waits.
      (should-error (agent-q-test-press "y") :type 'user-error))
    (agent-q-test-answer "N")
    (should (equal (agent-q-approval-test--ended) '(("a" . 2))))))

(ert-deftest agent-q-approve-a-key-that-repeats-answers-one-request ()
  (agent-q-approval-test--with-chat
    (agent-q-approval-test--arm-all)
    (goto-char (agent-q-render-item-start (agent-q-call-waiting)))
    (agent-q-test-press "y")
    (dotimes (_ 3)
      (should-error (agent-q-test-press "y") :type 'user-error))
    (should (= 2 (length (agent-q-call-all-waiting))))
    ;; Nor does the second press on the place to which the next request moved.
    (goto-char (agent-q-render-item-start (cadr (agent-q-call-all-waiting))))
    (should-error (agent-q-test-press "y") :type 'user-error)
    ;; Both were on the screen, so that one key may still answer them together.
    (goto-char (agent-q-render-item-start (agent-q-test-arm)))
    (agent-q-test-press "Y")
    (should (equal (agent-q-approval-test--ended) '(("a" . 2) ("b" . 2) ("c" . 2))))))

(ert-deftest agent-q-approve-an-answer-at-the-prompt-is-no-message ()
  (agent-q-approval-test--with-chat
    (dolist (typed '("y" "n" "!" "Y" "N" "P" "r" "e" "v" "d" " y\n" "yes" "No"))
      (let ((said ""))
        (cl-letf (((symbol-function 'message)
                   (lambda (format &rest arguments)
                     (setq said (and format (apply #'format format arguments))))))
          (agent-q-test-send typed))
        (should (string-match-p "t_erase, press [a-zA-Z!] without RET" said)))
      (should (equal (agent-q-prompt-text) ""))
      (should (zerop agent-q-chat-view-header-queued))
      (should (= 3 (length (agent-q-call-all-waiting)))))
    ;; What is more than a key is a message, and so is a key when nothing waits.
    (agent-q-test-send "y?")
    (should (= 1 agent-q-chat-view-header-queued))
    (agent-q-test-answer "N")
    (should-not (agent-q-call-waiting))
    (agent-q-test-send "y")
    (should (= 2 agent-q-chat-view-header-queued))
    (agent-q-chat-send-cancel)))

(defvar evil-local-mode)

(ert-deftest agent-q-approve-under-evil-a-request-says-in-which-state-the-prompt-answers ()
  (let ((evil-local-mode t))
    (agent-q-approval-test--with-chat
      (should (agent-q-test-shows "Press a key here or at the empty prompt in insert state\n"))
      (agent-q-chat-send-cancel))))

(ert-deftest agent-q-approve-a-request-says-how-to-get-there ()
  (agent-q-approval-test--with-chat
    (should (agent-q-test-shows "? Run t_erase?\n"))
    (should (agent-q-test-shows "Press a key here or at the empty prompt\n"))
    ;; Those behind the next one are a line each.
    (should (= 1 (how-many "Press a key here" (point-min) (point-max))))
    (should (agent-q-test-shows "\n? t_erase b count=2 waits\n? t_erase c count=2 waits\n"))
    (should (string-match-p "3 wait" (agent-q-chat-view-header-line)))
    (agent-q-chat-send-cancel)))

(ert-deftest agent-q-approve-the-reason-of-a-denial-is-shown ()
  (agent-q-approval-test--with-chat
    (cl-letf (((symbol-function 'read-string) (lambda (&rest _) "not this one")))
      (agent-q-test-answer "r"))
    (agent-q-test-answer "N")
    (agent-q-approval-test--ended)
    (should (string-match-p "t_erase a count=2 denied: not this one\n.*t_erase b count=2 denied\n"
                            (agent-q-test-log)))))

(ert-deftest agent-q-approve-a-cancelled-turn-answers-all ()
  (agent-q-approval-test--with-chat
    (agent-q-chat-send-cancel)
    (should-not (agent-q-approval-test--ended))
    (should-not (agent-q-call-all-waiting))
    (should (zerop (plist-get (agent-q-core-status) :approvals)))))

(ert-deftest agent-q-approve-arguments-are-edited-as-the-texts-they-are ()
  (agent-q-approval-test--with-chat
    (agent-q-test-answer "e")
    (let ((buffer (current-buffer)))
      (should (derived-mode-p 'agent-q-approval-arguments-mode))
      (should (equal (buffer-substring-no-properties (point-min) (point-max))
                     "text:\na\ncount:\n2"))
      ;; The headings are no text of the call's.
      (goto-char (point-min))
      (should-error (delete-char 1) :type 'text-read-only)
      (forward-line 1)
      (delete-char 1)
      (insert "#\\newline \"\\\\n\"\n\tλ\n")
      ;; What does not fit is said here, and nothing is decided.
      (goto-char (point-max))
      (insert " x")
      (should-error (agent-q-test-press "C-c C-c") :type 'user-error)
      (delete-char -2)
      (insert ".5")
      (should-error (agent-q-test-press "C-c C-c") :type 'user-error)
      (delete-char -2)
      (insert "1")
      (agent-q-test-press "C-c C-c")
      (should-not (buffer-live-p buffer)))
    (with-current-buffer chat
      (agent-q-test-answer "N")
      (should (equal (agent-q-approval-test--ended)
                     '(("#\\newline \"\\\\n\"\n\tλ\n" . 21)))))))

(ert-deftest agent-q-approve-edited-arguments-are-shown-and-point-goes-on ()
  (agent-q-approval-test--with-chat
    (let ((first (agent-q-test-answer "e")))
      (insert "edited ")
      (agent-q-test-press "C-c C-c")
      (should (eq (current-buffer) chat))
      (should (eq (agent-q-render-item-at (point)) (agent-q-call-waiting)))
      (should-not (eq first (agent-q-call-waiting)))
      (agent-q-test-until (eq 'succeeded (agent-q-call-state first)))
      (should (agent-q-test-shows "t_erase edited a count=2")))
    (agent-q-test-answer "N")
    (agent-q-approval-test--ended)))

(ert-deftest agent-q-approve-each-request-says-what-can-be-done-to-all ()
  (agent-q-approval-test--with-chat
    (let ((shows (lambda (label)
                   (let ((call (agent-q-call-waiting))
                         (case-fold-search nil))
                     (string-match-p (regexp-quote label)
                                     (buffer-substring (agent-q-render-item-start call)
                                                       (agent-q-render-item-end call)))))))
      (should (funcall shows "[N] deny all 3"))
      ;; Of those that are folded nobody has seen what they do.
      (agent-q-test-arm)
      (agent-q-render-update-item (agent-q-call-waiting))
      (should-not (funcall shows "[Y]"))
      (agent-q-approval-test--arm-all)
      (should (funcall shows "[Y] run the 3 seen"))
      (agent-q-test-answer "n")
      (agent-q-test-answer "n")
      (should-not (funcall shows "deny all"))
      (should-not (funcall shows "[Y]"))
      (agent-q-test-answer "n"))
    (agent-q-approval-test--ended)))

(ert-deftest agent-q-approve-what-is-folded-answers-to-no-key ()
  (agent-q-approval-test--with-chat
    (let ((last (car (last (agent-q-call-all-waiting)))))
      (dolist (key '("y" "!" "n" "RET" "Y"))
        (setf (agent-q-render-item-expanded last) nil
              (agent-q-call-armed last) t
              (agent-q-call-ended last) t)
        (agent-q-render-update-item last)
        (should-not (agent-q-approval-gate-armed-p last))
        (goto-char (agent-q-render-item-start last))
        (agent-q-test-press key)
        ;; It is shown, and has to be read.
        (should (agent-q-render-item-expanded last))
        (should-error (agent-q-test-press "y") :type 'user-error))
      (should (= 3 (length (agent-q-call-all-waiting)))))
    (agent-q-test-answer "N")
    (should-not (agent-q-approval-test--ended))))

(ert-deftest agent-q-approve-an-argument-may-become-empty ()
  (agent-q-approval-test--with-chat
    (agent-q-test-answer "e")
    (delete-char 1)
    (agent-q-test-press "C-c C-c")
    (with-current-buffer chat
      (agent-q-test-answer "N")
      (should (equal (agent-q-approval-test--ended) '(("" . 2)))))))

(ert-deftest agent-q-approve-editing-can-be-left ()
  (agent-q-approval-test--with-chat
    (agent-q-test-answer "e")
    (insert "x")
    (agent-q-test-press "C-c C-k")
    (with-current-buffer chat
      (should (= 3 (length (agent-q-call-all-waiting))))
      (agent-q-test-answer "y")
      (agent-q-test-answer "N")
      (should (equal (agent-q-approval-test--ended) '(("a" . 2)))))))

(ert-deftest agent-q-approve-code-is-edited-as-lisp-and-has-to-be-balanced ()
  (agent-q-test-with-chat
    (let ((answers nil)
          (call (agent-q-approval-test--ask 7)))
      (cl-letf (((symbol-function 'agent-q-core-decide)
                 (lambda (&rest answer) (push answer answers))))
        (agent-q-test-see call)
        (goto-char (agent-q-render-item-start call))
        (agent-q-test-press "e")
        (should (derived-mode-p 'lisp-mode))
        (should (eq (key-binding (kbd "C-c C-c")) #'agent-q-approval-arguments-run))
        (goto-char (point-max))
        (insert " (list #\\( \"(\"")
        (should-error (agent-q-test-press "C-c C-c") :type 'user-error)
        (should-not answers)
        (insert ")")
        ;; Wherever the window went meanwhile, one is back in the chat.
        (delete-other-windows)
        (agent-q-test-press "C-c C-c")
        (should (eq (window-buffer) chat))
        (should (equal (car answers) '(7 "modified" "{\"form\":\"1 (list #\\\\( \\\"(\\\")\"}")))))))

(define-minor-mode agent-q-approve-test-client-mode
  "As SLY and SLIME in buffers of `lisp-mode'."
  :keymap `((,(kbd "C-c C-c") . ignore) (,(kbd "C-c C-k") . ignore)))

(ert-deftest agent-q-approve-the-keys-of-a-lisp-client-do-not-take-edited-code ()
  "By C-c C-c they would run it, and leave the request unanswered."
  (let ((lisp-mode-hook (list #'agent-q-approve-test-client-mode)))
    (agent-q-test-with-chat
      (let ((call (agent-q-approval-test--ask 7)))
        (agent-q-test-see call)
        (goto-char (agent-q-render-item-start call))
        (agent-q-test-press "e")
        (should agent-q-approve-test-client-mode)
        (should (eq (key-binding (kbd "C-c C-c")) #'agent-q-approval-arguments-run))
        (should (eq (key-binding (kbd "C-c C-k")) #'agent-q-approval-arguments-quit))
        (kill-buffer)))))

(ert-deftest agent-q-approve-what-is-edited-goes-with-the-chat ()
  (agent-q-approval-test--with-chat
    (agent-q-test-answer "e")
    (let ((edited (current-buffer)))
      (insert "x")
      (kill-buffer chat)
      (should-not (buffer-live-p edited)))))

(ert-deftest agent-q-approve-the-buttons-say-and-do-what-the-keys-do ()
  (agent-q-approval-test--with-chat
    (agent-q-approval-test--arm-all)
    (dolist (label '("[y] run" "[!] always in this chat" "[P] always in this project" "[n] deny"
                     "[r] deny with a reason" "[e] edit" "[v] show all" "[Y] run the 3 seen"))
      (should (agent-q-test-shows label)))
    (agent-q-test-find "[N] deny all 3")
    (should (eq (lookup-key (get-text-property (point) 'keymap) [mouse-2])
                #'agent-q-approval-mouse))
    (agent-q-approval-press)
    (should-not (agent-q-approval-test--ended))))

(ert-deftest agent-q-approve-tab-goes-from-button-to-button ()
  (agent-q-approval-test--with-chat
    (let ((call (agent-q-test-arm)))
      (goto-char (agent-q-render-item-start call))
      (agent-q-test-press "TAB")
      (should (looking-at-p "\\[y\\] run"))
      (agent-q-test-press "TAB")
      (should (looking-at-p "\\[n\\] deny"))
      (agent-q-test-press "RET")
      (should-not (agent-q-call-open-p call)))
    (goto-char (agent-q-render-item-start (agent-q-call-waiting)))
    (dotimes (_ 9) (agent-q-test-press "TAB"))
    (should (= (point) (agent-q-render-item-start (agent-q-call-waiting))))
    (agent-q-test-answer "N")))

(ert-deftest agent-q-approve-a-long-call-can-be-viewed-whole ()
  (agent-q-test-with-chat
    (let ((long (concat (make-string 7000 ?x) "END")))
      (agent-q-test-event :approval :call 7 :tool "eval_form" :level "dangerous"
                          :reason "It runs code."
                          :arguments (agent-q-json-encode `(:form ,long)))
      (should-not (agent-q-test-shows "xEND"))
      (goto-char (agent-q-render-item-start (agent-q-call-waiting)))
      (save-window-excursion
        (agent-q-test-press "v")
        ;; One is there, so that q closes it.
        (should (equal "*agent-q call*" (buffer-name (window-buffer))))
        (with-current-buffer "*agent-q call*"
          (should (string-match-p "\\`q goes back to the chat" header-line-format))
          (should (agent-q-test-shows "\nDangerous\n"))
          (should (agent-q-test-shows long)))))))

(ert-deftest agent-q-approve-the-file-of-a-call-is-named ()
  (let ((default-directory temporary-file-directory))
    (agent-q-test-with-chat
      (agent-q-test-event :approval :call 7 :tool "write_file" :level "dangerous"
                          :reason "" :arguments "{\"path\":\"a/../b.lisp\"}")
      (should (agent-q-test-shows
               (concat "file: " (expand-file-name "b.lisp" temporary-file-directory))))
      (agent-q-test-event :call-finished :call 7 :outcome :denied)
      (agent-q-test-event :approval :call 8 :tool "write_file" :level "dangerous"
                          :reason ""
                          :arguments (agent-q-json-encode
                                      `(:path ,(concat (apply #'concat (make-list 40 "../"))
                                                       "etc/hosts"))))
      (should (agent-q-test-shows "\nfile: /etc/hosts\n")))))

;;;; Long requests

(defun agent-q-approval-test--ask (key &rest more)
  "Have the current chat ask about the call KEY of eval_form; return the call.
MORE are properties of the event."
  (apply #'agent-q-test-event :approval
         (append (list :call key) more
                 '(:tool "eval_form" :level "dangerous" :reason "runs a program"
                   :arguments "{\"form\":\"1\"}")))
  (gethash key agent-q-call-table))

(ert-deftest agent-q-approve-what-runs-has-to-be-seen-to-its-end ()
  (agent-q-test-with-chat
    (let ((answers nil)
          (call (agent-q-approval-test--ask 7)))
      (cl-letf (((symbol-function 'agent-q-core-decide)
                 (lambda (&rest answer) (push answer answers)))
                ((symbol-function 'agent-q-core-offered-rule)
                 (lambda (&rest _) "[{\"rule\":{},\"description\":\"Allow it.\"}]"))
                ((symbol-function 'agent-q-core-add-rule)
                 (lambda (&rest rule) (push rule answers))))
        (goto-char (agent-q-render-item-start call))
        (dolist (key '("y" "Y" "!" "!" "P" "P"))
          ;; Its head was on the screen.
          (setf (agent-q-call-armed call) t)
          (ignore-error user-error (agent-q-test-press key)))
        (should-not answers)
        (setf (agent-q-call-armed call) t)
        (should (string-match-p "to the end of the request"
                                (cadr (should-error (agent-q-test-press "y")
                                                    :type 'user-error))))
        ;; New arguments have to be seen anew.
        (agent-q-test-see call)
        (agent-q-approval-test--ask 7 :arguments "{\"form\":\"2\"}")
        (setf (agent-q-call-armed call) t)
        (should-error (agent-q-test-press "y") :type 'user-error)
        ;; What doesn't run need not be read.
        (agent-q-test-press "n")
        (should (equal answers '((7 "denied" nil))))))))

(ert-deftest agent-q-approve-the-end-counts-after-the-head ()
  (agent-q-test-with-chat
    (let ((call (agent-q-approval-test--ask 7))
          (head nil) (end t))
      (cl-letf (((symbol-function 'agent-q-approval-gate--window)
                 (lambda (_call) (and head (selected-window))))
                ((symbol-function 'agent-q-approval-gate--end-visible-p) (lambda (_call) end))
                ((symbol-function 'agent-q-approval-gate--below) (lambda (&rest _) (and (not end) 9))))
        ;; The chat follows, so that the end is there first.
        (agent-q-approval-gate--see call)
        (should-not (agent-q-approval-gate-armed-p call))
        (setq head t end nil)
        (agent-q-approval-gate--see call)
        (should (agent-q-approval-gate-armed-p call))
        (should-not (agent-q-approval-gate-read-p call))
        (should (agent-q-test-shows "9 more lines below"))
        (setq head nil end t)
        (agent-q-approval-gate--see call)
        (should (agent-q-approval-gate-read-p call))))))

(ert-deftest agent-q-approve-a-first-key-brings-the-rest-of-a-high-request ()
  "What of its end was on the screen before its head counts, and what lies between does not."
  (agent-q-test-with-chat
    (let* ((call (agent-q-approval-test--ask 7))
           (start (marker-position (agent-q-render-item-start call)))
           (end (marker-position (agent-q-render-item-end call)))
           (top start) (bottom end))
      (cl-letf (((symbol-function 'window-start) (lambda (&rest _) top))
                ((symbol-function 'window-end) (lambda (&rest _) bottom))
                ((symbol-function 'agent-q-approval-gate--window) (lambda (_call) (selected-window)))
                ((symbol-function 'agent-q-approval-gate--end-visible-p) #'ignore)
                ((symbol-function 'agent-q-approval-gate--below) #'ignore))
        (dolist (case `((,(+ start 9) ,(+ start 8) nil) (,(+ start 9) ,(+ start 9) t)))
          (agent-q-approval-gate-disarm call)
          (setq top (nth 0 case))
          (agent-q-approval-gate-go-to-head call)
          (should (= (point) start))
          (setq bottom (nth 1 case))
          (agent-q-approval-gate--see call)
          (should (agent-q-approval-gate-armed-p call))
          (should (eq (nth 2 case) (agent-q-approval-gate-read-p call))))
        ;; What it shows anew has to be seen anew.
        (agent-q-approval-gate-disarm call)
        (agent-q-approval-gate--see call)
        (should-not (agent-q-approval-gate-read-p call))))))

(ert-deftest agent-q-approve-another-agent-has-no-chat ()
  (agent-q-test-with-chat
    (setq agent-q-session-mcp-client "claude-code")
    (agent-q-approval-test--ask 7)
    (should (agent-q-test-shows "[!] always for this agent"))
    (should-not (agent-q-test-shows "in this chat"))))

(ert-deftest agent-q-approve-one-line-keeps-the-blanks-of-strings ()
  (pcase-dolist (`(,text ,line)
                 '(("(md \"| a |  b |\")\n   (g  1)" "(md \"| a |  b |\") (g 1)")
                   ("(list #\\\"  1  #\\\")" "(list #\\\" 1 #\\\")")
                   ("(f \"one\n   two\" \"a\\\"  b\")" "(f \"one two\" \"a\\\"  b\")")
                   ("a  \"b  c" "a \"b c")))
    (should (equal line (agent-q-call-on-one-line text)))))

(ert-deftest agent-q-approve-a-request-says-that-more-is-below ()
  (agent-q-test-with-chat
    (let ((call (agent-q-approval-test--ask 7)))
      (should-not (agent-q-test-shows "below"))
      (setf (agent-q-call-below call) 60)
      (agent-q-render-update-item call)
      (should (string-match-p
               "Run eval_form\\?\n60 more lines below: SPC shows more; y works once .*\nDangerous"
               (agent-q-test-log)))
      (agent-q-test-event :call-finished :call 7 :outcome :denied)
      (agent-q-approval-test--ask
       8 :arguments (agent-q-json-encode `(:form ,(make-string 7000 ?x))))
      (should (string-match-p
               "Run eval_form\\?\nNot all of it is shown here; v shows the whole\nDangerous"
               (agent-q-test-log))))))

(ert-deftest agent-q-approve-each-reason-has-a-line-above-the-arguments ()
  (agent-q-test-with-chat
    (agent-q-approval-test--ask 7 :reason "runs a program")
    (should (agent-q-test-shows "\nDangerous: runs a program\n"))
    (agent-q-approval-test--ask
     7 :reason "runs a program (RUN-PROGRAM \"a\nform: 1\"); loads a file; opens a connection")
    (should (agent-q-test-shows "\nDangerous:\nruns a program (RUN-PROGRAM \"a form: 1\")\nloads a file\nopens a connection\n"))
    (should (< (agent-q-test-find "opens a connection") (agent-q-test-find "\nform:")))
    ;; None of a flood of reasons is lost; they need not have a line each.
    (agent-q-approval-test--ask
     7 :reason (mapconcat #'number-to-string (number-sequence 1 100) "; "))
    (should (agent-q-test-shows "\n29\n30; 31; "))
    (should (agent-q-test-shows "; 100\n"))
    ;; What is quoted of the form is there already; of what a macro made of it, it is not.
    (agent-q-approval-test--ask
     7 :reason "runs programs: UIOP:RUN-PROGRAM in (UIOP/RUN-PROGRAM:RUN-PROGRAM \"a\" :OUTPUT T)"
     :arguments (agent-q-json-encode '(:form "(list (uiop:run-program \"a\"\n :output t))")))
    (should (agent-q-test-shows "\nDangerous: runs programs (UIOP:RUN-PROGRAM)\n"))
    (agent-q-approval-test--ask
     7 :reason "deletes or writes files: DELETE-FILE in (DELETE-FILE \"a\")"
     :arguments (agent-q-json-encode '(:form "(clean \"a\")")))
    (should (agent-q-test-shows "\nDangerous: deletes or writes files (DELETE-FILE) in (DELETE-FILE \"a\")\n"))
    ;; v shows them whole.
    (let ((long (make-string 1000 ?x)))
      (agent-q-approval-test--ask 7 :reason (concat "this; " long "; that"))
      (should-not (agent-q-test-shows long))
      (goto-char (agent-q-render-item-start (agent-q-call-waiting)))
      (agent-q-test-press "v")
      (with-current-buffer "*agent-q call*"
        (should (agent-q-test-shows "\n\nWhy it asks\n- this\n- x"))
        (should (agent-q-test-shows long))))))

(ert-deftest agent-q-approve-an-offered-rule-stands-by-the-keys ()
  "It has to be seen, and what was above it needs not be seen again."
  (agent-q-approval-test--with-chat
    (let ((call (agent-q-call-waiting)) (rule nil))
      (agent-q-test-answer "!")
      (should (< (agent-q-test-find "text: a")
                 (agent-q-test-find "Press ! again to add this rule:")
                 (agent-q-test-find "[y] run")))
      (cl-letf (((symbol-function 'agent-q-approval-gate--window) #'ignore)
                ((symbol-function 'agent-q-approval-gate--end-visible-p) (lambda (_call) rule)))
        (agent-q-approval-gate-require-rule call)
        (agent-q-approval-gate--see call)
        (should-not (agent-q-approval-gate-armed-p call))
        (setq rule t)
        (agent-q-approval-gate--see call)
        (should (and (agent-q-approval-gate-armed-p call) (agent-q-approval-gate-read-p call)))
        ;; What was never read above it has to be.
        (agent-q-approval-gate-disarm call)
        (agent-q-approval-gate--see call)
        (should-not (agent-q-approval-gate-armed-p call))))
    (agent-q-chat-send-cancel)))

(provide 'agent-q-approval-test)
;;; agent-q-approval-test.el ends here
